"""Vectors from files of every format, and files that are damaged or of another kind."""

import os
import sys

import numpy as np
import pytest
from vector_files import outcome, store

import pcpq
from pcpq.errors import FormatError
from pcpq.io.formats import (
    FORMATS,
    format_of,
    read_vectors,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_vectors_that_are_in_it(name, vectors, tmp_path, small_batches):
    path = tmp_path / f"set{FORMATS[name][0]}"
    store(path, vectors, name)
    file = read_vectors(str(path))
    assert (file.format, file.path, file.dimensions) == (name, path, 6)
    assert file.rows == (None if name in ("arrow", "jsonl", "text") else 300)
    assert file.metric == ("cosine" if name == "hdf5" else None)
    assert file.array().dtype == np.float32
    np.testing.assert_array_equal(file.array(), vectors)
    for _ in range(2):  # can be gone through again
        batches = [file.vectors] if isinstance(file.vectors, np.ndarray) else list(file.vectors)
        np.testing.assert_array_equal(np.concatenate(batches), vectors)
        assert all(batch.dtype.char in "efd" for batch in batches)
        if not isinstance(file.vectors, np.ndarray):
            assert max(map(len, batches)) <= 7


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_builds_the_index_that_the_array_builds(name, vectors, tmp_path):
    path = tmp_path / f"set{FORMATS[name][-1]}"
    store(path, vectors, name)
    settings = {"metric": "euclidean", "n_lists": 4, "keep": "float32"}
    expected = pcpq.build(vectors, **settings).search(vectors[:20], k=5, probes=4, rerank=300)
    found = pcpq.build(read_vectors(path).vectors, **settings).search(vectors[:20], k=5, probes=4, rerank=300)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("name", ["npy", "fvecs", "fbin", "hdf5"])
def test_floats_are_mapped_and_never_copied(name, vectors, tmp_path):
    path = tmp_path / f"set.{name}"
    store(path, vectors, name)
    mapped = read_vectors(path).vectors
    assert isinstance(mapped, np.memmap)
    assert not mapped.flags.owndata
    assert not mapped.flags.writeable


def test_a_format_that_is_said_counts_more_than_the_suffix(vectors, tmp_path):
    store(tmp_path / "set.data", vectors, "fbin")
    np.testing.assert_array_equal(read_vectors(tmp_path / "set.data", format="fbin").array(), vectors)
    with pytest.raises(ValueError, match=r"set\.data: .* none of \.npy \.npz .*\.vec"):
        read_vectors(tmp_path / "set.data")
    with pytest.raises(ValueError, match="format is 'csv'; expected one of npy"):
        read_vectors(tmp_path / "set.data", format="csv")
    assert format_of("SET.FVECS") == "fvecs"
    assert format_of("words.vec.gz") == "text"


def test_files_that_are_none_are_refused_before_they_are_opened(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        read_vectors(tmp_path / "gone.npy")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(IsADirectoryError, match=r"folder\.npy"):
        read_vectors(tmp_path / "folder.npy")
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(ValueError, match=r"pipe\.txt is not a regular file"):
        read_vectors(tmp_path / "pipe.txt")


@pytest.mark.parametrize("name", FORMATS)
def test_empty_files_are_refused_by_name(name, tmp_path):
    path = tmp_path / f"nothing{FORMATS[name][0]}"
    path.touch()
    with pytest.raises(FormatError, match=r"nothing\..*0 bytes"):
        read_vectors(path)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_of_something_else_is_refused_by_name(name, tmp_path):
    path = tmp_path / f"other{FORMATS[name][0]}"
    path.write_bytes(b"\xff\xff\xff\x7f <html>not what you think</html>\n")
    with pytest.raises(FormatError, match="other"):
        read_vectors(path)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_cut_anywhere_is_refused_by_name(name, vectors, tmp_path):
    path = tmp_path / f"cut{FORMATS[name][0]}"
    store(path, vectors[:20], name)
    whole, refused = path.read_bytes(), 0
    for size in np.linspace(1, len(whole) - 1, 25).astype(int):
        path.write_bytes(whole[:size])
        found = outcome(lambda: read_vectors(path).array())
        if isinstance(found, FormatError):
            assert str(path) in str(found)
            refused += 1
        else:  # rows before the cut are whole; nothing tells that the last line of a text is not
            rows = len(found) - (name == "text")
            np.testing.assert_array_equal(found[:rows], vectors[:rows, : found.shape[1]])
    assert refused >= (25 if name not in ("jsonl", "text", "fvecs", "bvecs", "ivecs") else 15)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("hdf5", "parquet")])
def test_damaged_bytes_never_do_worse_than_a_value_error(name, vectors, tmp_path):
    generator = np.random.default_rng(8)
    path = tmp_path / f"damaged{FORMATS[name][0]}"
    store(path, vectors[:20], name)
    whole = np.fromfile(path, np.uint8)
    for _ in range(60):
        damaged = whole.copy()
        # Headers are at either end.
        places = np.concatenate(
            [generator.integers(min(len(whole), 200), size=2), -generator.integers(1, 100, 1)]
        )
        damaged[places] = generator.integers(256, size=3)
        damaged.tofile(path)
        found = outcome(lambda: (read_vectors(path).array(), read_vectors(path).ids()))
        assert not isinstance(found, ValueError) or str(path) in str(found)


@pytest.mark.parametrize(
    ("name", "option"),
    [("set.npy", "column"), ("set.txt", "id_column"), ("set.parquet", "part"), ("set.hdf5", "column")],
)
def test_a_name_that_a_format_has_no_use_for_is_refused(name, option):
    with pytest.raises(ValueError, match=rf"{name}: {option} is 'x', but only files of"):
        read_vectors(name, **{option: "x"})


@pytest.mark.parametrize("name", ["hdf5", "parquet", "arrow"])
def test_what_is_not_installed_is_said_by_the_import(name, vectors, tmp_path, monkeypatch):
    path = tmp_path / f"set.{name}"
    store(path, vectors, name)
    missing = "h5py" if name == "hdf5" else "pyarrow"
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError) as raised:
        read_vectors(path)
    assert raised.value.name == missing
