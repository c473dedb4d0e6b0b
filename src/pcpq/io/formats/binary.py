"""Memory-mapped files of little-endian numbers.

.fvecs .bvecs .ivecs: each row is its number of dimensions (int32), then float32, uint8 or int32 values
.fbin .u8bin .i8bin: the numbers of rows and dimensions (uint32), then all values: float32, uint8 or int8
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pcpq.errors import FormatError
from pcpq.io.formats.files import mapped
from pcpq.io.formats.vector_file import VectorFile, Wanted, array_or_batches, check_dimensions
from pcpq.util.batches import slices

VECS: dict[str, np.dtype[Any]] = {"fvecs": np.dtype("<f4"), "bvecs": np.dtype("u1"), "ivecs": np.dtype("<i4")}
BINS: dict[str, np.dtype[Any]] = {"fbin": np.dtype("<f4"), "u8bin": np.dtype("u1"), "i8bin": np.dtype("i1")}
# Number of rows whose dimensions are checked in one step.
CHECKED = 1 << 16


def read_vecs(path: Path, format: str, wanted: Wanted) -> VectorFile:
    """Read a file in which each row starts with its number of dimensions; all rows must have the same."""
    content, dtype = mapped(path), VECS[format]
    dimensions = int.from_bytes(content[:4].tobytes(), "little", signed=True)
    check_dimensions(path, dimensions)
    row_bytes = 4 + dimensions * dtype.itemsize
    if len(content) % row_bytes:
        raise FormatError(
            f"{path}: has {len(content)} bytes; rows of {dimensions} dimensions, as the first is, "
            f"take {row_bytes} each"
        )
    rows = content.reshape(-1, row_bytes)
    lengths = rows[:, :4].view("<i4")[:, 0]
    for part in slices(len(rows), CHECKED):
        wrong = np.flatnonzero(lengths[part] != dimensions)
        if len(wrong):
            row = part.start + int(wrong[0])
            raise FormatError(f"{path}: row {row} has {lengths[row]} dimensions, the first has {dimensions}")
    vectors = array_or_batches(path, rows[:, 4:].view(dtype))
    return VectorFile(path, format, vectors, len(rows), dimensions)


def read_bin(path: Path, format: str, wanted: Wanted) -> VectorFile:
    """Read a file that starts with the numbers of rows and dimensions."""
    content, dtype = mapped(path), BINS[format]
    if len(content) < 8:
        raise FormatError(f"{path}: has {len(content)} bytes; its header alone takes 8")
    rows, dimensions = (int(number) for number in content[:8].view("<u4"))
    check_dimensions(path, dimensions)
    expected = 8 + rows * dimensions * dtype.itemsize
    if len(content) != expected:
        raise FormatError(
            f"{path}: has {len(content)} bytes, but {rows} rows of {dimensions} dimensions take {expected}"
        )
    if rows == 0:
        raise FormatError(f"{path}: says that it has 0 rows: there are no vectors")
    vectors = array_or_batches(path, content[8:].view(dtype).reshape(rows, dimensions))
    return VectorFile(path, format, vectors, rows, dimensions)
