"""HDF5 files in the layout of ann-benchmarks: `train`, `test`, and the attribute `distance`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pcpq.errors import FormatError
from pcpq.io.arrays import FloatArray
from pcpq.io.formats.files import GZIP_GAIN, mapped, parsing, plain_size
from pcpq.io.formats.vector_file import (
    MOST_DIMENSIONS,
    Batches,
    VectorFile,
    Wanted,
    array_or_batches,
    as_floats,
    check_kind,
    is_real,
    listed,
    rows_at_once,
    say_which,
)
from pcpq.util.batches import slices

METRICS = {"angular": "cosine", "cosine": "cosine", "dot": "dot", "ip": "dot", "euclidean": "euclidean"}
# Largest size of a chunk, because chunks are read as a whole.
MOST_CHUNK_BYTES = 1 << 28


def read_hdf5(path: Path, format: str, wanted: Wanted) -> VectorFile:
    """Read a dataset of a file: memory-mapped if it is stored contiguously, otherwise in batches."""
    import h5py

    size, part = plain_size(path), wanted.part or "train"
    with parsing(path), h5py.File(path, "r") as file:
        dataset, names = find(file, part), list(file)
        others = [name for name in names if dataset is None and holds_vectors(find(file, name))]
        if dataset is not None:
            dtype, shape = dataset.dtype, tuple(dataset.shape or ())
            offset, chunks = offset_of(file, dataset), dataset.chunks
        # On some damaged files this call does not return: HDFGroup/hdf5#1707.
        distance = file.attrs.get("distance")
    if dataset is None:
        hint = f"; {say_which('part', others[0])}" if others else ""
        raise ValueError(f"{path}: has no dataset {part!r}; it has {listed(names)}{hint}")
    check_kind(path, f"{part!r} is a dataset", dtype, shape)
    rows, dimensions = shape
    metric = METRICS.get(distance.decode(errors="replace") if isinstance(distance, bytes) else str(distance))
    if offset is not None:
        needed = rows * dimensions * dtype.itemsize
        if offset + needed > size:
            raise FormatError(
                f"{path}: {part!r} of shape {shape} ends at {offset + needed}, the file at {size}"
            )
        values = mapped(path)[offset : offset + needed].view(dtype).reshape(shape)
        return VectorFile(path, format, array_or_batches(path, values), rows, dimensions, metric)
    # Values that were never written take no space in a file, but would be read as zeros.
    if rows * dimensions * dtype.itemsize > size * GZIP_GAIN:
        raise FormatError(f"{path}: {part!r} of shape {shape} is more than {size} bytes can hold")
    if chunks is not None and np.prod(chunks, dtype=float) * dtype.itemsize > MOST_CHUNK_BYTES:
        raise FormatError(f"{path}: {part!r} has chunks of {chunks}; at most {MOST_CHUNK_BYTES} bytes are read")
    vectors = Batches(path, lambda: batches_of(path, part, step_of(chunks, dimensions)), dimensions, rows)
    return VectorFile(path, format, vectors, rows, dimensions, metric)


def find(file: Any, part: str) -> Any:
    """Return a dataset stored in this file, or None; links and external storage could point to any file."""
    import h5py

    if not isinstance(file.get(part, getlink=True), h5py.HardLink):
        return None
    found = file[part]
    if not isinstance(found, h5py.Dataset) or found.is_virtual or found.external is not None:
        return None
    return found


def holds_vectors(dataset: Any) -> bool:
    """Return whether a dataset may hold vectors: it has two axes of real numbers."""
    return dataset is not None and len(dataset.shape or ()) == 2 and is_real(dataset.dtype)


def offset_of(file: Any, dataset: Any) -> int | None:
    """Return the offset of a dataset in the file if it is stored contiguously, otherwise None."""
    if dataset.chunks is not None or file.userblock_size or dataset.id.get_storage_size() != dataset.nbytes:
        return None
    offset = dataset.id.get_offset()
    return None if offset is None else int(offset)


def step_of(chunks: tuple[int, ...] | None, dimensions: int) -> int:
    """Return the number of rows to read in one step: whole chunks, unless these are too large."""
    step = rows_at_once(dimensions)
    if chunks is None or chunks[0] * dimensions > MOST_DIMENSIONS * 16:
        return step
    return chunks[0] * max(1, step // chunks[0])


def batches_of(path: Path, part: str, step: int) -> Iterator[FloatArray]:
    """Yield the vectors of a dataset in batches."""
    import h5py

    with h5py.File(path, "r") as file:
        dataset = find(file, part)
        for rows in slices(len(dataset), step):
            yield as_floats(dataset[rows])
