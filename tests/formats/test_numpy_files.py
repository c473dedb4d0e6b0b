"""Vectors from .npy and .npz files."""

import os
import pickle
import zipfile

import numpy as np
import pytest

import pcpq
from pcpq.errors import FormatError
from pcpq.io.formats import (
    read_vectors,
)

pytestmark = pytest.mark.quick


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
    for column, said in ((None, "may be 'a', 'b'; say which"), ("c", "'c' occurs 0 times; there are 'a', 'b'")):
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
