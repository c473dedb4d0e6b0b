"""Vectors from the .vecs and .bin formats, and from HDF5."""

import struct

import h5py
import numpy as np
import pytest
from vector_files import store, store_hdf5

from pcpq.errors import FormatError
from pcpq.io.formats import (
    read_vectors,
)

pytestmark = pytest.mark.quick

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


def test_datasets_of_another_name_are_named_with_the_option(vectors, tmp_path):
    with h5py.File(tmp_path / "set.hdf5", "w") as file:
        file["names"] = np.arange(5)
        file["passages"] = vectors
        file["questions"] = vectors[:5]
    said = r"has no dataset 'train'; it has 'names', 'passages', 'questions'; say which: part='passages'"
    with pytest.raises(ValueError, match=said + r" \(command line: --part passages\)"):
        read_vectors(tmp_path / "set.hdf5")
    assert read_vectors(tmp_path / "set.hdf5", part="passages").rows == len(vectors)


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
