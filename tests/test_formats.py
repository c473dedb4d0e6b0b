"""Vectors from files and into files, results into files, and files that lie."""

import csv
import gzip
import io
import json
import os
import pickle
import struct
import sys
import zipfile

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pcpq
from pcpq.errors import FormatError
from pcpq.io.formats import (
    FORMATS,
    RESULT_FORMATS,
    WRITTEN_FORMATS,
    files,
    format_of,
    read_vectors,
    vector_file,
    write_results,
    write_vectors,
)

SMALL = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def vectors():
    """Small whole numbers, which every format can hold."""
    return np.random.default_rng(5).integers(0, 100, (300, 6)).astype(np.float32)


@pytest.fixture
def small_batches(monkeypatch):
    """Some seven rows a batch."""
    monkeypatch.setattr(vector_file, "BATCH_ELEMENTS", 42)


def list_array(vectors, kind=None):
    return pyarrow.array(vectors.tolist(), pyarrow.list_(kind or pyarrow.float32()))


def fixed_array(vectors):
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])


def vecs(vectors, dtype):
    lengths = np.full((len(vectors), 1), vectors.shape[1], "<i4").view(np.uint8)
    return np.hstack([lengths, np.ascontiguousarray(vectors, dtype).view(np.uint8)]).tobytes()


def bins(vectors, dtype):
    return struct.pack("<II", *vectors.shape) + vectors.astype(dtype).tobytes()


def lines(vectors, **fields):
    names = [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]
    rows = [
        {**name, "vector": row}
        for name, row in zip(names or [{}] * len(vectors), vectors.tolist(), strict=True)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def words(vectors, header=False):
    first = f"{len(vectors)} {vectors.shape[1]}\n" if header else ""
    rows = (f"word{i} {' '.join(map(str, row))}\n" for i, row in enumerate(vectors.tolist()))
    return first + "".join(rows)


def outcome(call):
    """What a call returns, or the ValueError it raises; all else is a failure."""
    try:
        return call()
    except ValueError as error:
        return error


def store_hdf5(path, vectors, distance="angular", **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("train", data=vectors, **options)
        file.create_dataset("test", data=vectors[:10])
        file.attrs["distance"] = distance


def store_arrow(path, table, stream=False):
    with (pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file)(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


def store(path, vectors, name):
    """A file of vectors by another way than pcpq's own."""
    table = pyarrow.table({"embedding": list_array(vectors), "number": np.arange(len(vectors))})
    if name == "npy":
        np.save(path, vectors)
    elif name == "npz":
        np.savez_compressed(path, vectors=vectors, number=np.arange(len(vectors)))
    elif name in ("fvecs", "bvecs", "ivecs"):
        path.write_bytes(vecs(vectors, {"f": "<f4", "b": "u1", "i": "<i4"}[name[0]]))
    elif name in ("fbin", "u8bin", "i8bin"):
        path.write_bytes(bins(vectors, {"f": "<f4", "u": "u1", "i": "i1"}[name[0]]))
    elif name == "hdf5":
        store_hdf5(path, vectors)
    elif name == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=90)
    elif name == "arrow":
        store_arrow(path, table)
    elif name == "jsonl":
        path.write_text(lines(vectors))
    else:
        path.write_text(words(vectors))


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
    with pytest.raises(ValueError, match=r"pipe\.txt is not a plain file"):
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


# NumPy


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8", "u1", "i1", "<i2", ">i8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_real_numbers_of_any_kind_are_read(dtype, order, vectors, tmp_path, small_batches):
    given = (vectors % 2).astype(dtype, order=order)
    np.save(tmp_path / "set.npy", given)
    file = read_vectors(tmp_path / "set.npy")
    np.testing.assert_array_equal(file.array(), given.astype(np.float32))
    assert isinstance(file.vectors, np.memmap) == (dtype in ("f2", "f4", "f8"))
    pcpq.build(file.vectors, metric="dot", n_lists=2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.ones((3, 2), complex), "dtype complex128"),
        (np.array([["a", "b"]]), "dtype <U1"),
        (np.ones((3, 2), [("x", "f4")]), "dtype"),
        (np.ones((3, 2), np.longdouble), "dtype float128"),
        (np.ones(5), r"1 axes, shape \(5,\)"),
        (np.ones((2, 2, 2)), r"3 axes, shape \(2, 2, 2\)"),
        (np.ones((0, 4)), r"shape \(0, 4\): there are no vectors"),
        (np.ones((4, 0)), "0 dimensions"),
    ],
)
def test_arrays_that_are_no_vectors_are_refused_by_name(given, said, tmp_path):
    np.save(tmp_path / "set.npy", given)
    with pytest.raises(ValueError, match=rf"set\.npy: .*{said}"):
        read_vectors(tmp_path / "set.npy")


class Trap:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("trapped",)


def test_pickles_are_never_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trap = np.array([[Trap()]], object)
    np.save(tmp_path / "set.npy", trap)
    np.savez(tmp_path / "set.npz", vectors=trap)
    (tmp_path / "bare.npy").write_bytes(pickle.dumps(Trap()))
    for name in ("set.npy", "set.npz", "bare.npy"):
        with pytest.raises(ValueError, match=name):
            read_vectors(tmp_path / name)
    assert not (tmp_path / "trapped").exists()


def npy(shape, descriptor="'<f4'", version=1, data=b"", length=None):
    text = f"{{'descr': {descriptor}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    width = 2 if version == 1 else 4
    return b"\x93NUMPY" + bytes([version, 0]) + (length or len(text)).to_bytes(width, "little") + text + data


@pytest.mark.parametrize("version", [1, 2, 3])
def test_all_versions_of_npy_are_read_wherever_the_array_begins(version, vectors, tmp_path):
    (tmp_path / "set.npy").write_bytes(npy("(300, 6)", version=version, data=vectors.tobytes()))
    np.testing.assert_array_equal(read_vectors(tmp_path / "set.npy").array(), vectors)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (npy("(1000000000000, 1000000)"), "has .* bytes, but shape .* needs 4000000000000000"),
        (npy("(4611686018427387904, 4)"), "needs 73786976294838206"),  # 0 in 64 bits
        (npy("(1, 9223372036854775807)"), "9223372036854775807 dimensions"),
        (npy("(-1, 4)"), r"shape \(-1, 4\)"),
        (npy("(True, 4)"), r"shape \(True, 4\)"),
        (npy("[2, 4]"), r"shape \[2, 4\]"),
        (npy("(2, 2)", data=bytes(15)), "bytes, but shape"),
        (npy("(2, 2)", data=bytes(17)), "bytes, but shape"),
        (npy("(2, 2)", descriptor="'<q9'"), "data type"),
        (npy("(2, 2)", descriptor="'|O'"), "dtype object"),
        (npy("(2, 2)", version=2, length=4_000_000_000), "header has 4000000000 bytes; at most 10000"),
        (npy("(2, 2)", length=9_000), "header has 9000 bytes, the file only"),
        (npy("(" * 300), "cannot be read"),
        (npy("__import__('os').mkdir('trapped')"), "cannot be read"),
        (npy("(2, 2)", version=4), "version from 1 to 3"),
    ],
)
def test_lying_headers_of_npy_are_refused(content, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set.npy").write_bytes(content)
    with pytest.raises(ValueError, match=rf"set\.npy: .*{said}"):
        read_vectors(tmp_path / "set.npy")
    assert not (tmp_path / "trapped").exists()


def test_an_archive_gives_the_only_matrix_or_the_one_that_is_named(vectors, tmp_path, small_batches):
    path = tmp_path / "set.npz"
    np.savez(path, a=vectors, id=np.arange(300) + 7, names=np.array([f"n{i}" for i in range(300)]), x=Trap())
    np.testing.assert_array_equal(read_vectors(path).array(), vectors)
    np.testing.assert_array_equal(read_vectors(path).ids(), np.arange(300) + 7)
    assert read_vectors(path, id_column="names").ids() == [f"n{i}" for i in range(300)]
    np.savez(path, a=vectors, b=vectors.astype(np.int16) * 2)
    assert read_vectors(path, column="a").ids() is None
    np.testing.assert_array_equal(read_vectors(path, column="b").array(), vectors * 2)
    for column, said in ((None, "may be 'a', 'b'; say which"), ("c", "'c' is there 0 times; it has 'a', 'b'")):
        with pytest.raises(ValueError, match=rf"set\.npz: .*{said}"):
            read_vectors(path, column=column)


def test_ids_of_an_archive_are_as_many_as_vectors(vectors, tmp_path):
    path = tmp_path / "set.npz"
    for ids, said in (
        (np.arange(299), r"int64 of shape \(299,\); .*\(300,\)"),
        (np.ones(300), "float64"),
        (np.full(300, 2**63, np.uint64), "9223372036854775808"),
    ):
        np.savez(path, vectors=vectors, id=ids)
        with pytest.raises(FormatError, match=said):
            read_vectors(path).ids()


def test_archives_that_lie_are_refused(vectors, tmp_path):
    path = tmp_path / "set.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vectors.npy", npy("(1000000000, 100)", data=bytes(100)))
    with pytest.raises(FormatError, match=r"'vectors' has \d+ bytes, but shape .* needs 400000000\d+"):
        read_vectors(path)
    np.savez(path, vectors=np.asfortranarray(vectors))
    with pytest.raises(ValueError, match="column by column"):
        read_vectors(path)
    np.savez(path, vectors=vectors)
    content = bytearray(path.read_bytes())
    content[1000] ^= 1  # which only the checksum tells
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"set\.npz: .*CRC"):
        read_vectors(path).array()


# Plain numbers


@pytest.mark.parametrize("name", ["fvecs", "bvecs", "ivecs"])
@pytest.mark.parametrize("dimensions", [-1, 0, 7, 2**31 - 1, -(2**31)])
def test_rows_that_lie_about_their_length_are_refused(name, dimensions, vectors, tmp_path):
    path = tmp_path / f"set.{name}"
    store(path, vectors, name)
    content = bytearray(path.read_bytes())
    content[:4] = struct.pack("<i", dimensions)
    path.write_bytes(content)
    with pytest.raises(FormatError, match=rf"set\.{name}: .*{dimensions} dimensions"):
        read_vectors(path)
    store(path, vectors, name)
    content = bytearray(path.read_bytes())
    row = len(content) // 300
    content[17 * row : 17 * row + 4] = struct.pack("<i", dimensions)
    path.write_bytes(content)
    with pytest.raises(FormatError, match=rf"row 17 has {dimensions} dimensions, the first has 6"):
        read_vectors(path)


@pytest.mark.parametrize("name", ["fbin", "u8bin", "i8bin"])
@pytest.mark.parametrize("shape", [(2**32 - 1, 2**20), (301, 6), (299, 6), (0, 6), (300, 0), (300, 2**32 - 1)])
def test_headers_that_do_not_fit_the_file_are_refused(name, shape, vectors, tmp_path):
    path = tmp_path / f"set.{name}"
    store(path, vectors, name)
    path.write_bytes(struct.pack("<II", *shape) + path.read_bytes()[8:])
    with pytest.raises(FormatError, match=rf"set\.{name}: .*({shape[0]} rows|{shape[1]} dimensions)"):
        read_vectors(path)


def test_a_header_alone_has_no_vectors(tmp_path):
    (tmp_path / "set.fbin").write_bytes(struct.pack("<II", 0, 5))
    with pytest.raises(FormatError, match="0 rows"):
        read_vectors(tmp_path / "set.fbin")
    (tmp_path / "set.fbin").write_bytes(b"1234567")
    with pytest.raises(FormatError, match="has 7 bytes"):
        read_vectors(tmp_path / "set.fbin")


# HDF5


@pytest.mark.parametrize(
    "options",
    [{}, {"chunks": (50, 4)}, {"compression": "gzip", "chunks": (7, 6)}, {"dtype": ">f4"}, {"dtype": "i2"}],
)
def test_datasets_are_read_however_they_are_stored(options, vectors, tmp_path, small_batches):
    store_hdf5(tmp_path / "set.h5", vectors, **options)
    file = read_vectors(tmp_path / "set.h5")
    np.testing.assert_array_equal(file.array(), vectors)
    np.testing.assert_array_equal(np.concatenate([*file.vectors]).reshape(-1, 6), vectors)
    np.testing.assert_array_equal(read_vectors(tmp_path / "set.h5", part="test").array(), vectors[:10])
    assert file.ids() is None


@pytest.mark.parametrize("userblock", [512, 4096])
def test_what_stands_before_a_dataset_does_not_matter(userblock, vectors, tmp_path):
    with h5py.File(tmp_path / "set.hdf5", "w", userblock_size=userblock) as file:
        file["train"] = vectors
    np.testing.assert_array_equal(read_vectors(tmp_path / "set.hdf5").array(), vectors)


@pytest.mark.parametrize(
    ("distance", "metric"),
    [
        ("angular", "cosine"),
        (np.bytes_("euclidean"), "euclidean"),
        ("dot", "dot"),
        ("ip", "dot"),
        ("jaccard", None),
        (3, None),
    ],
)
def test_the_metric_is_what_the_file_says(distance, metric, vectors, tmp_path):
    store_hdf5(tmp_path / "set.hdf5", vectors, distance)
    assert read_vectors(tmp_path / "set.hdf5").metric == metric


def test_datasets_elsewhere_are_not_followed(vectors, tmp_path):
    store_hdf5(tmp_path / "other.hdf5", vectors)
    vectors.tofile(tmp_path / "raw")
    layout = h5py.VirtualLayout((300, 6), "f4")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "train", (300, 6))
    with h5py.File(tmp_path / "set.hdf5", "w") as file:
        file["external"] = h5py.ExternalLink("other.hdf5", "train")
        file["soft"] = h5py.SoftLink("/external")
        file["group"] = h5py.Group(file.create_group("inner").id)
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("outside", (300, 6), "f4", external=[(str(tmp_path / "raw"), 0, 7200)])
    for part in ("external", "soft", "group", "virtual", "outside", None):
        with pytest.raises(
            ValueError, match=rf"has no dataset '{part or 'train'}'; it has 'external', 'group'"
        ):
            read_vectors(tmp_path / "set.hdf5", part=part)


def test_datasets_of_more_than_the_file_can_hold_are_refused(tmp_path):
    path = tmp_path / "set.hdf5"
    for shape, chunks, said in (
        ((2**40, 16), (1000, 16), r"\(1099511627776, 16\) is more than \d+ bytes can hold"),
        ((10, 2**30), (1, 1000), "1073741824 dimensions"),
        ((5,), None, "1 axes"),
    ):
        with h5py.File(path, "w") as file:
            file.create_dataset("train", shape, "f4", chunks=chunks)
        with pytest.raises(ValueError, match=rf"set\.hdf5: .*{said}"):
            read_vectors(path)


# Parquet and Arrow


@pytest.fixture(params=["parquet", "arrow", "stream"])
def store_table(request, tmp_path):
    """Write a table; returns the path."""

    def write(columns):
        table = pyarrow.table(columns)
        path = tmp_path / f"set.{'parquet' if request.param == 'parquet' else 'arrow'}"
        if request.param == "parquet":
            pyarrow.parquet.write_table(table, path)
        else:
            store_arrow(path, table, stream=request.param == "stream")
        return path

    return write


def test_columns_of_numbers_of_any_kind_are_vectors(vectors, store_table, small_batches):
    half = pyarrow.array(list(vectors.astype(np.float16)), pyarrow.list_(pyarrow.float16()))
    tensor = pyarrow.fixed_shape_tensor(pyarrow.float32(), (6,))
    columns = [list_array(vectors, kind) for kind in (pyarrow.float64(), pyarrow.uint8(), pyarrow.int64())]
    columns += [half, fixed_array(vectors), pyarrow.ExtensionArray.from_storage(tensor, fixed_array(vectors))]
    columns.append(pyarrow.array(vectors.tolist(), pyarrow.large_list(pyarrow.float32())))
    for column in columns:
        file = read_vectors(store_table({"embedding": column, "text": ["a"] * 300}))
        np.testing.assert_array_equal(file.array(), vectors)
        assert all(batch.dtype.char in "efd" and len(batch) <= 7 for batch in file.vectors)


def test_ids_are_integers_or_words(vectors, store_table):
    numbers, names = np.arange(300) * 3, [f"é{i}" for i in range(300)]
    path = store_table(
        {
            "id": pyarrow.array(numbers, pyarrow.uint32()),
            "name": names,
            "coded": pyarrow.array(names).dictionary_encode(),
            "large": pyarrow.array(names, pyarrow.large_string()),
            "v": fixed_array(vectors),
        }
    )
    ids = read_vectors(path).ids()
    assert ids.dtype == np.int64
    np.testing.assert_array_equal(ids, numbers)
    for column in ("name", "coded", "large"):
        assert read_vectors(path, id_column=column).ids() == names


def test_columns_that_do_not_fit_are_refused_by_name(vectors, store_table):
    ids = pyarrow.array([*range(299), None])
    path = store_table(
        {
            "a": list_array(vectors),
            "b": fixed_array(vectors),
            "c": ids,
            "d": np.ones(300),
            "u": pyarrow.array(np.arange(300, dtype=np.uint64) + 2**63),
        }
    )
    for column, id_column, said in (
        (None, None, "may be 'a', 'b'; say which"),
        ("x", None, "'x' is there 0 times; it has 'a', 'b', 'c', 'd', 'u'"),
        ("c", None, "column 'c' is of type int64; expected lists of numbers"),
        ("a", "x", "'x' is there 0 times; it has 'a', 'b', 'c', 'd', 'u'"),
        ("a", "d", "column 'd' is of type double; ids are integers or strings"),
    ):
        with pytest.raises(ValueError, match=rf"set\.\w+: .*{said}"):
            read_vectors(path, column=column, id_column=id_column)
    assert read_vectors(path, column="a").ids() is None
    for id_column, said in (("c", "column 'c' has 1 nulls"), ("u", "9223372036854775808")):
        with pytest.raises(FormatError, match=rf"set\.\w+: .*{said}"):
            read_vectors(path, column="b", id_column=id_column).ids()
    unnamed = read_vectors(store_table({"id": np.ones(300), "v": fixed_array(vectors)}))
    np.testing.assert_array_equal(unnamed.array(), vectors)
    with pytest.raises(FormatError, match="column 'id' is of type double; ids are integers or strings"):
        unnamed.ids()
    with pytest.raises(ValueError, match="vectors is none of 'n'"):
        read_vectors(store_table({"n": [1, 2]}))
    with pytest.raises(FormatError, match="0 rows"):
        read_vectors(store_table({"v": list_array(vectors[:0])}))


def test_vectors_of_different_lengths_or_none_are_refused(store_table):
    for rows, said in (
        ([[1.0, 2.0], [3.0]], "column 'v', rows from 0 on: "),
        ([[1.0, 2.0], None], "1 nulls"),
        ([[1.0, 2.0], [3.0, None]], "1 of them null"),
        ([[], []], "0 dimensions|0 values"),
    ):
        path = store_table({"v": pyarrow.array(rows, pyarrow.list_(pyarrow.float32()))})
        with pytest.raises(FormatError, match=rf"set\.\w+: .*({said})"):
            read_vectors(path).array()


def test_batches_of_different_lengths_are_refused(tmp_path):
    path = tmp_path / "set.parquet"
    rows = [[1.0, 2.0]] * 5 + [[1.0, 2.0, 3.0]] * 5
    table = pyarrow.table({"v": pyarrow.array(rows, pyarrow.list_(pyarrow.float32()))})
    store_arrow(tmp_path / "set.arrow", table)
    pyarrow.parquet.write_table(table, path)
    for step, name in ((10, "set.arrow"), (20, "set.parquet")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vector_file, "BATCH_ELEMENTS", step)
            with pytest.raises(FormatError, match=f"{name}.*(rows? (from )?5 on have 3|2 to 3|values in all)"):
                read_vectors(tmp_path / name).array()


# JSON lines


def test_lines_of_json_have_a_vector_and_perhaps_an_id(vectors, tmp_path, small_batches):
    path = tmp_path / "set.jsonl.gz"
    names = [f"ü {i}" for i in range(300)]
    path.write_bytes(gzip.compress(("\ufeff" + lines(vectors, id=range(300), name=names) + "\n\n").encode()))
    file = read_vectors(path)
    np.testing.assert_array_equal(file.array(), vectors)
    np.testing.assert_array_equal(file.ids(), np.arange(300))
    assert file.ids().dtype == np.int64
    assert read_vectors(path, id_column="name").ids() == names


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"vector": [1, 2]', "is not JSON"),
        ("[1, 2]", r"is \[1, 2\]; expected an object"),
        ("{}", "field 'vector' is None"),
        ('{"vector": [1]}', "has 1 dimensions, the first vector has 2"),
        ('{"vector": [1, "2"]}', "expected a list of numbers"),
        ('{"vector": [1, true]}', "expected a list of numbers"),
        ('{"vector": [1, null]}', "expected a list of numbers"),
        ('{"vector": [1, [2]]}', "expected a list of numbers"),
        ('{"vector": "12"}', "field 'vector' is '12'"),
        ('{"vector": [1, 1' + "0" * 400 + "]}", "too large"),
        ('{"vector": [1, 1' + "0" * 9000 + "]}", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"vector": [1, 2], "a": "\udcff"}', "is not JSON"),
    ],
)
def test_lines_that_are_wrong_are_refused_by_number(line, said, tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_bytes(('{"vector": [1, 2]}\n\n' + line).encode("utf-8", "surrogateescape"))
    with pytest.raises(FormatError, match=rf"set\.jsonl, line 3: .*{said}"):
        read_vectors(path).array()


def test_fields_that_do_not_fit_are_refused_by_name(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text('{"a": [1, 2], "b": [3], "c": "x", "d": []}\n')
    for column, id_column, said in (
        (None, None, "may be 'a', 'b'; say which"),
        ("x", None, "'x' is there 0 times"),
        ("c", None, "field 'c' is 'x'; expected a list"),
        ("d", None, r"field 'd' is \[\]"),
        ("a", "x", "'x' is there 0 times"),
    ):
        with pytest.raises(ValueError, match=rf"set\.jsonl: .*{said}"):
            read_vectors(path, column=column, id_column=id_column)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("1", '"b"', "is 'b'; expected ids that are all integers"),
        ('"a"', "2", "is 2; expected ids that are all words"),
        ("1", "true", "is True"),
        ("1", "1.5", "is 1.5"),
        ("1", "9223372036854775808", "is 9223372036854775808"),
        ("1", "null", "is None"),
    ],
)
def test_ids_of_lines_are_of_one_kind(first, second, said, tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text("".join(f'{{"id": {value}, "vector": [1]}}\n' for value in (first, second)))
    with pytest.raises(FormatError, match=rf"line 2: field 'id' {said}"):
        read_vectors(path).ids()


def test_a_line_without_end_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_LINE", 1000)
    for name in ("bomb.jsonl.gz", "bomb.txt.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"a 1 2\n" + b"1" * 100_000))
        with pytest.raises(FormatError, match=rf"{name}, line (1: is not JSON|2: has more than 1000 bytes)"):
            read_vectors(tmp_path / name).array()


# Words


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("suffix", [".txt", ".vec", ".txt.gz"])
def test_text_has_a_word_and_its_numbers_a_line(header, suffix, vectors, tmp_path, small_batches):
    path = tmp_path / f"words{suffix}"
    content = words(vectors, header).encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    file = read_vectors(path)
    assert (file.rows, file.dimensions) == (300 if header else None, 6)
    assert file.ids() == [f"word{i}" for i in range(300)]
    np.testing.assert_array_equal(file.array(), vectors)


@pytest.mark.parametrize("header", ["", "\n6 2\n"])
def test_words_may_have_blanks_in_them_and_lines_at_their_end(header, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(header + "at name@x.org 1 2\n. . . 3 4 \n5 5 6\r\n\n\u00a0 7\t8\nnan 9 1e1\n-1 -2 inf")
    file = read_vectors(path)
    assert file.ids() == ["at name@x.org", ". . .", "5", "\u00a0", "nan", "-1"]
    np.testing.assert_array_equal(file.array(), [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [-2, np.inf]])


def test_a_header_of_one_dimension_is_no_word(tmp_path):
    (tmp_path / "words.txt").write_text("2 1\na 5\n7 1\n")
    assert read_vectors(tmp_path / "words.txt").ids() == ["a", "7"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("word 1", "has 2 fields; expected a word and 2 numbers"),
        ("1 2", "has 2 fields; expected a word and 2 numbers"),
        ("word 1 2 3", "has 4 fields; expected a word and 2 numbers"),
        ("word 1 x", "could not convert"),
        ("word", "has 1 fields"),
    ],
)
def test_lines_of_text_that_are_wrong_are_refused_by_number(line, said, tmp_path):
    for header in ("", "2 2\n"):
        (tmp_path / "words.vec").write_text(f"{header}the 0.5 1\n{line}\n")
        with pytest.raises(FormatError, match=rf"words\.vec, line {3 if header else 2}: .*{said}"):
            read_vectors(tmp_path / "words.vec").array()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("3 2\na 1 2\nb 3 4\n", "says it has 3 vectors, but has only 2"),
        ("1 2\na 1 2\nb 3 4\n", "says it has 1 vectors, but has more"),
        ("1000000000 2\na 1 2\n", "says it has 1000000000 vectors; 19 bytes hold at most 4"),
        ("0 2\na 1 2\n", "says it has 0 vectors"),
        ("2 0\na 1 2\n", "0 dimensions"),
        ("2 99999999999\na 1 2\n", "99999999999 dimensions"),
        ("1" * 5000 + " 2\na 1 2\n", "cannot be read"),
        ("no numbers\n", "line 1: ends in no number"),
        (" \n\n", "no lines"),
    ],
)
def test_text_that_says_one_thing_and_has_another_is_refused(content, said, tmp_path):
    (tmp_path / "words.txt").write_text(content)
    with pytest.raises(FormatError, match=rf"words\.txt.*{said}"):
        read_vectors(tmp_path / "words.txt").array()


def test_words_that_are_not_utf8_are_refused_by_line(tmp_path):
    (tmp_path / "words.txt").write_bytes(b"a 1 2\n\xff\xfe 3 4\n")
    file = read_vectors(tmp_path / "words.txt")
    assert file.array().shape == (2, 2)
    with pytest.raises(FormatError, match="line 2: the word is not UTF-8"):
        file.ids()


# What does not belong to a format


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


# Writing vectors

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
        assert "cannot be told" in str(found)
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
        with pytest.raises(ValueError, match="cannot be told"):
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


# Results

IDS = np.array([[3, 1, -1], [2, -1, -1], [-1, -1, -1]])
NAMES = np.array([["a,b", '"', None], ["王", None, None], [None, None, None]], object)
SCORES = np.array([[0.1, 0.05, -np.inf], [1e-8, -np.inf, -np.inf], [-np.inf] * 3], np.float32)


def written(format, ids=IDS, scores=SCORES, **options):
    out = io.BytesIO()
    write_results(out, ids, scores, format, **options)
    return out.getvalue()


def test_a_table_is_aligned():
    assert written("table").decode().splitlines() == [
        "query  rank  id  score",
        "    0     1   3    0.1",
        "    0     2   1   0.05",
        "    1     1   2  1e-08",
    ]
    assert written("table", NAMES, queries=["x", "queen", "z"]).decode().splitlines() == [
        "query  rank  id   score",
        "x         1  a,b    0.1",
        'x         2  "     0.05',
        "queen     1  王   1e-08",
    ]


def test_a_table_cannot_drive_the_terminal():
    shown = written("table", np.array([["\x1b[2J\ud800\n"]], object), SCORES[:1, :1])
    assert shown.count(b"\n") == 2
    assert b"\x1b" not in shown
    assert b"\\x1b[2J\\ud800\\n" in shown


def test_csv_is_quoted():
    assert written("csv").decode() == "query,rank,id,score\n0,1,3,0.1\n0,2,1,0.05\n1,1,2,1e-08\n"
    found = list(csv.reader(io.StringIO(written("csv", NAMES, queries=['"', "\n", ""]).decode(), newline="")))
    assert found[1:] == [['"', "1", "a,b", "0.1"], ['"', "2", '"', "0.05"], ["\n", "1", "王", "1e-08"]]


def test_json_has_a_line_for_every_query():
    found = [json.loads(line) for line in written("jsonl", NAMES, queries=np.array([5, 6, 7])).splitlines()]
    assert found == [
        {"query": 5, "ids": ["a,b", '"'], "scores": [0.1, 0.05]},
        {"query": 6, "ids": ["王"], "scores": [1e-8]},
        {"query": 7, "ids": [], "scores": []},
    ]
    assert json.loads(written("jsonl", np.array([["\ud800"]], object), SCORES[:1, :1]))["ids"] == ["\ud800"]


def test_parquet_has_a_row_for_every_result():
    found = pyarrow.parquet.read_table(io.BytesIO(written("parquet")))
    assert found.to_pydict() == {
        "query": [0, 0, 1],
        "rank": [1, 2, 1],
        "id": [3, 1, 2],
        "score": SCORES[SCORES > -1].tolist(),
    }
    found = pyarrow.parquet.read_table(io.BytesIO(written("parquet", NAMES, queries=["x", "y", "z"])))
    assert found.column("id").to_pylist() == ["a,b", '"', "王"]
    assert found.column("query").to_pylist() == ["x", "x", "y"]


@pytest.mark.parametrize("format", RESULT_FORMATS)
def test_results_of_a_search_go_to_a_path_or_a_file(format, vectors, tmp_path):
    names = [f"n{i}" for i in range(300)]
    found = pcpq.build(vectors, names, metric="dot").search(vectors[:4], k=3)
    content = written(format, found.ids, found.scores)
    write_results(tmp_path / "found", found.ids, found.scores, format)
    assert (tmp_path / "found").read_bytes() == content
    assert os.listdir(tmp_path) == ["found"]
    with open(tmp_path / "open", "wb") as file:
        write_results(file, found.ids, found.scores, format)
        assert not file.closed
    assert (tmp_path / "open").read_bytes() == content


@pytest.mark.parametrize("format", RESULT_FORMATS)
def test_no_results_at_all_are_written_too(format):
    content = written(format, IDS[2:], SCORES[2:])
    if format == "parquet":
        assert pyarrow.parquet.read_table(io.BytesIO(content)).num_rows == 0
    else:
        assert len(content.splitlines()) == 1


def test_results_that_do_not_match_are_refused():
    for arguments, said in (
        ((IDS, SCORES, "xml"), "format is 'xml'; expected one of table, csv, jsonl, parquet"),
        ((IDS, SCORES[:2], "csv"), r"ids have shape \(3, 3\), scores \(2, 3\)"),
        ((IDS[0], SCORES[0], "csv"), r"\(3,\)"),
    ):
        with pytest.raises(ValueError, match=said):
            write_results(io.BytesIO(), *arguments)
    with pytest.raises(ValueError, match="2 names of queries for 3 queries"):
        written("csv", queries=["a", "b"])
