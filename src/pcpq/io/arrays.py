"""Checks of dtype, shape and finite values of vectors, and the scaling that prevents overflow in float32."""

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

# Bytes of a cache line.
LINE = 64

# Larger working values would overflow float32 when squared and summed.
LARGEST = 1e15


def as_vectors(vectors: Any, name: str = "vectors", dimensions: int | None = None) -> FloatArray:
    """Return `vectors` as a non-empty (n, d) array of floats; arrays are not copied, other types converted."""
    held = held_vectors(vectors, name, dimensions)
    return held[:] if isinstance(held, LazyRows) else held


def held_vectors(vectors: Any, name: str = "vectors", dimensions: int | None = None) -> FloatArray | LazyRows:
    """Check that `vectors` are non-empty (n, d) numbers, and return them without copying or reading all rows.

    Rows of int8 and uint8 become float32 when they are read.
    """
    array = as_held(vectors, name)
    if array.dtype.char not in "efdbB":  # float16, float32, float64, int8, uint8
        raise ValueError(f"{name} have dtype {array.dtype}; expected float16, float32, float64, int8 or uint8")
    if array.ndim != 2:
        raise ValueError(f"{name} have {array.ndim} axes, shape {array.shape}; expected 2: (n, d)")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} are empty: shape {array.shape}")
    if dimensions is not None and array.shape[1] != dimensions:
        raise ValueError(f"{name} have {array.shape[1]} dimensions, the quantizer has {dimensions}")
    if array.dtype.char in "bB":
        like = np.empty((0, array.shape[1]), np.float32)
        return LazyRows(len(array), lambda rows: array[rows].astype(np.float32), like)
    return array


def check_rows_match(vectors: FloatArray, directions: FloatArray) -> None:
    """Raise a ValueError unless vectors and directions have the same shape."""
    if directions.shape != vectors.shape:
        raise ValueError(f"directions have shape {directions.shape}, vectors {vectors.shape}; they must match")


def working_rows(rows: FloatArray, unit: float, name: str, first_row: int = 0) -> Float32Array:
    """Return `rows / unit` as C-contiguous float32, or raise a ValueError that names the first invalid row.

    `unit` is a power of two, so values are rounded only where float32 cannot represent them.
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


def refuse_long_rows(rows: FloatArray, name: str, numbers: NDArray[Any]) -> None:
    """Raise a ValueError if a row is so much longer than most others that float32 cannot hold both."""
    largest = np.abs(rows.astype(np.float64)).max(axis=1)
    usual = float(np.median(largest[largest > 0])) if largest.any() else 0.0
    if usual and largest.max() > LARGEST * usual:
        _raise_for_bad_row(rows, LARGEST * usual, usual, name, numbers)


def typical_unit(rows: FloatArray, name: str, numbers: NDArray[Any] | None = None) -> float:
    """Return the root mean square length of rows, rounded down to a power of two; 1 if all rows are zero.

    Raises a ValueError that names the first row with a value that is not finite; `numbers` are the row numbers
    for that message.
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
    # 1 / unit must be representable in float32 as well.
    return float(2.0 ** np.clip(np.floor(np.log2(length)), -125, 125))


def empty_lines(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return np.empty aligned to a cache line, so that an aligned SIMD load reads one line instead of two."""
    size = prod(shape) * np.dtype(dtype).itemsize
    buffer = np.empty(size + LINE, np.uint8)
    start = -buffer.ctypes.data % LINE
    return buffer[start : start + size].view(dtype).reshape(shape)


def handy(rows: FloatArray, out_units: Float32Array | None = None) -> bool:
    """Return whether rows can be used without conversion: contiguous, aligned float32 with usual lengths.

    If `out_units` is given, the rows scaled to length 1 are written to it.
    """
    if rows.dtype != np.float32 or not (rows.flags.c_contiguous and rows.flags.aligned):
        return False
    least, most = _core.length_range(rows, out_units=out_units)
    # NaN and infinity fail this comparison as well.
    return least > _core.SMALLEST_LENGTH and most < _core.LARGEST_LENGTH


def unit_rows(vectors: FloatArray, name: str, first_row: int) -> Float32Array:
    """Return rows scaled to length 1; raise a ValueError that names the first row that is zero."""
    units = np.empty(vectors.shape, np.float32)
    if handy(vectors, units):
        return units
    unit = typical_unit(vectors, name, np.arange(first_row, first_row + len(vectors)))
    rows = working_rows(vectors, unit, name, first_row)
    least, _ = _core.length_range(rows, out_units=units)
    if least == 0.0:
        row = first_row + int(np.flatnonzero(~rows.any(axis=1))[0])
        raise ValueError(f"{name}[{row}] is zero; it has no direction, which cosine needs")
    return units
