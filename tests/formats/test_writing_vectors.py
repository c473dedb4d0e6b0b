"""Vectors into files, and back."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vector_files import outcome

from pcpq.io.formats import (
    FORMATS,
    WRITTEN_FORMATS,
    read_vectors,
    write_vectors,
)

pytestmark = pytest.mark.quick

SMALL = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
matrices = st.integers(1, 5).flatmap(
    lambda d: st.lists(st.lists(floats, min_size=d, max_size=d), min_size=1, max_size=9)
)
some_words = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=9, max_size=9, unique=True)


@SMALL
@given(rows=matrices, cut=st.integers(1, 8))
@pytest.mark.parametrize("name", WRITTEN_FORMATS)
def test_vectors_come_back_bit_for_bit(name, rows, cut, tmp_path):
    path, rows = tmp_path / f"set{FORMATS[name][0]}", np.array(rows, np.float32)
    assert write_vectors(path, filter(len, [rows[:cut], rows[cut:]])) == len(rows)
    file = read_vectors(path)
    np.testing.assert_array_equal(file.array().view(np.uint32), rows.view(np.uint32))
    assert file.ids() == (None if name != "text" else [str(i) for i in range(len(rows))])
    assert os.listdir(tmp_path) == [path.name]


@SMALL
@given(rows=matrices, names=some_words)
@pytest.mark.parametrize("name", ["parquet", "jsonl", "text"])
def test_words_come_back_or_are_refused(name, rows, names, tmp_path):
    path, names = tmp_path / f"set{FORMATS[name][0]}", names[: len(rows)]
    found = outcome(lambda: write_vectors(path, np.array(rows, np.float32), names))
    if name == "text" and isinstance(found, ValueError):
        assert "cannot be distinguished" in str(found)
        return
    assert found == len(rows)
    assert read_vectors(path).ids() == names
    np.testing.assert_array_equal(read_vectors(path).array(), np.array(rows, np.float32))


@pytest.mark.parametrize("name", ["parquet", "jsonl"])
def test_numbers_as_ids_come_back(name, vectors, tmp_path, small_batches):
    ids = np.arange(300, dtype=np.uint16)[::-1]
    assert write_vectors(tmp_path / f"set.{name}", iter([vectors]), ids) == 300
    np.testing.assert_array_equal(read_vectors(tmp_path / f"set.{name}").ids(), ids)


def test_words_that_could_be_numbers_are_not_written_as_text(vectors, tmp_path):
    for word in ("", " a", "a ", "a\nb", "a 5", "a inf"):
        with pytest.raises(ValueError, match="cannot be distinguished"):
            write_vectors(tmp_path / "set.txt", vectors[:2], ["fine", word])
    write_vectors(tmp_path / "set.txt", vectors[:3], ["new york", "5", ". . ."])
    assert read_vectors(tmp_path / "set.txt").ids() == ["new york", "5", ". . ."]


@pytest.mark.parametrize("name", WRITTEN_FORMATS)
def test_a_failure_leaves_what_was_there(name, vectors, tmp_path):
    path = tmp_path / f"set{FORMATS[name][0]}"
    write_vectors(path, vectors[:5])

    def failing():
        yield vectors
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_vectors(path, failing())
    with pytest.raises(ValueError, match="from row 300 on have 5 dimensions, those before 6"):
        write_vectors(path, [vectors, vectors[:, :5]])
    with pytest.raises(ValueError, match="no vectors"):
        write_vectors(path, [])
    with pytest.raises(ValueError, match="dtype int64"):
        write_vectors(path, np.ones((3, 2), int))
    assert os.listdir(tmp_path) == [path.name]
    np.testing.assert_array_equal(read_vectors(path).array(), vectors[:5])


def test_what_cannot_be_written_is_refused(vectors, tmp_path):
    for name, ids, said in (
        ("set.bvecs", None, "cannot be written as bvecs; expected npy, fvecs, fbin"),
        ("set.jsonl.gz", None, "uncompressed"),
        ("set.npy", range(300), "npy has no place for ids; parquet, jsonl, text have"),
        ("set.jsonl", range(299), "299 ids for at least 300 vectors"),
        ("set.jsonl", range(301), "301 ids for 300 vectors"),
        ("set.jsonl", [1, "a"] * 150, "integers"),
    ):
        with pytest.raises(ValueError, match=said):
            write_vectors(tmp_path / name, vectors, ids)
    with pytest.raises(ValueError, match=r"vectors\[1\] is not finite"):
        write_vectors(tmp_path / "set.jsonl", np.array([[1.0], [np.nan]]))
    with pytest.raises(FileNotFoundError):
        write_vectors(tmp_path / "gone" / "set.npy", vectors)
    assert os.listdir(tmp_path) == []


def test_numpy_reads_what_is_written(vectors, tmp_path):
    write_vectors(tmp_path / "set.npy", [vectors[:100], vectors[100:].astype(np.float64)])
    found = np.load(tmp_path / "set.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, vectors)
