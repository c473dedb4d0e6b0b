"""Vectors in: the only checks of dtype, shape and finiteness, and the unit that makes any size safe."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pcpq import _core
from pcpq.io.foreign_arrays import LazyRows, as_held
from pcpq.util.batches import batches

FloatArray = NDArray[np.floating[Any]]
Float32Array = NDArray[np.float32]
Ids = NDArray[np.int64]
Bytes = NDArray[np.uint8]

# Bytes that the processor reads at once.
LINE = 64

# Working values beyond this would overflow float32 when squared and summed.
LARGEST = 1e15


def as_vectors(vectors: Any, name: str = "vectors", dimensions: int | None = None) -> FloatArray:
    """A non-empty (n, d) array of floats: never copied where it is one, converted whole where it is none."""
    held = held_vectors(vectors, name, dimensions)
    return held[:] if isinstance(held, LazyRows) else held


def held_vectors(vectors: Any, name: str = "vectors", dimensions: int | None = None) -> FloatArray | LazyRows:
    """Check that `vectors` are non-empty (n, d) floats, whoever holds them; copies nothing, nor reads all."""
    array = as_held(vectors, name)
    if array.dtype.char not in "efd":  # float16, float32, float64
        raise ValueError(f"{name} have dtype {array.dtype}; expected float16, float32 or float64")
    if array.ndim != 2:
        raise ValueError(f"{name} have {array.ndim} axes, shape {array.shape}; expected 2: (n, d)")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} are empty: shape {array.shape}")
    if dimensions is not None and array.shape[1] != dimensions:
        raise ValueError(f"{name} have {array.shape[1]} dimensions, the quantizer has {dimensions}")
    return array


def check_rows_match(vectors: FloatArray, directions: FloatArray) -> None:
    """Directions go with vectors row by row."""
    if directions.shape != vectors.shape:
        raise ValueError(f"directions have shape {directions.shape}, vectors {vectors.shape}; they must match")


def working_rows(rows: FloatArray, unit: float, name: str, first_row: int = 0) -> Float32Array:
    """`rows / unit` as C-contiguous float32, or a ValueError that names the first bad row.

    `unit` is a power of two, so nothing is rounded but what float32 cannot hold.
    """
    if rows.dtype == np.float64:
        with np.errstate(over="ignore"):
            work = np.multiply(rows, 1.0 / unit).astype(np.float32)
    else:
        work = np.multiply(rows, np.float32(1.0 / unit), dtype=np.float32)
    work = np.ascontiguousarray(work)
    # NaN and infinity fail this comparison as well.
    if not max(float(work.max()), -float(work.min())) <= LARGEST:
        _raise_for_bad_row(rows, LARGEST * unit, unit, name, np.arange(first_row, first_row + len(rows)))
    return work


def _raise_for_bad_row(rows: FloatArray, limit: float, unit: float, name: str, numbers: NDArray[Any]) -> None:
    row, column = np.argwhere(~(np.abs(rows.astype(np.float64)) <= limit))[0]
    value = rows[row, column]
    where = f"{name}[{numbers[row]}, {column}] is {value}"
    if np.isfinite(value):
        raise ValueError(
            f"{where}: more than {LARGEST:g} times the typical length {unit:g} of the training vectors"
        )
    raise ValueError(f"{where}; every value must be finite")


def typical_unit(rows: FloatArray, name: str, numbers: NDArray[Any] | None = None) -> float:
    """The power of two nearest under the root mean square length of rows (1 if all are zero).

    Raises a ValueError that names the first row that is not finite; `numbers` are the rows' own.
    """
    peak = max(float(rows.max()), -float(rows.min()))
    if not np.isfinite(peak):
        numbers = np.arange(len(rows)) if numbers is None else numbers
        _raise_for_bad_row(rows, np.finfo(np.float64).max, 1.0, name, numbers)
    if peak > float(np.finfo(np.float32).max):
        raise ValueError(
            f"{name} hold {peak:g}; the largest value float32 can hold is {np.finfo(np.float32).max:g}"
        )
    if peak == 0.0:
        return 1.0
    squares = 0.0
    for part in batches(len(rows), rows.shape[1], 1):
        scaled = rows[part].astype(np.float64) / peak
        squares += float(np.einsum("ij,ij->", scaled, scaled))
    length = peak * np.sqrt(squares / len(rows))
    # 1 / unit must be a float32 too.
    return float(2.0 ** np.clip(np.floor(np.log2(length)), -125, 125))


def empty_lines(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """np.empty that begins where a cache line does, so that a SIMD load needs one line, not two."""
    size = prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size].view(dtype).reshape(shape)


def handy(rows: FloatArray, out_units: Float32Array | None = None) -> bool:
    """Can rows be used as they are: float32, contiguous, of usual lengths? Makes rows of length 1 if asked."""
    if rows.dtype != np.float32 or not rows.flags.c_contiguous:
        return False
    least, most = _core.length_range(rows, out_units)
    return (
        least > _core.SMALLEST_LENGTH and most < _core.LARGEST_LENGTH
    )  # NaN and infinity fail this comparison as well


def unit_rows(vectors: FloatArray, name: str, first_row: int) -> Float32Array:
    """Rows of length 1; a zero row has no direction and is refused by its number."""
    units = np.empty(vectors.shape, np.float32)
    if handy(vectors, units):
        return units
    rows = working_rows(vectors, typical_unit(vectors, name), name, first_row)
    least, _ = _core.length_range(rows, units)
    if least == 0.0:
        row = first_row + int(np.flatnonzero(~rows.any(axis=1))[0])
        raise ValueError(f"{name}[{row}] is zero; it has no direction, which cosine needs")
    return units
