"""Tensors, data frames and columns of other libraries as arrays, recognised without importing these libraries.

Data that is already an array in memory is not copied. Other data becomes LazyRows, which are converted when
they are read, so that the whole data never exists twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]

# Names of the dtypes of data frames and columns.
FLOATS = re.compile(r"(half)?(float|double)|u?int8$")
LISTS = re.compile(r"(large_|fixed_size_)?list|array\(")
# DLPack devices whose memory the CPU can read: CPU memory, and host memory of CUDA and ROCm.
READABLE_DEVICES = (1, 3, 11, 13)


class LazyRows:
    """(n, d) rows of an object of another library, converted to arrays when they are read."""

    ndim = 2

    def __init__(self, length: int, read: Callable[[Any], AnyArray], like: AnyArray | None = None) -> None:
        self._length, self._read = length, read
        some = read(slice(0, 1)) if like is None else like
        self.shape, self.dtype = (length, some.shape[1]), some.dtype

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, rows: slice | AnyArray) -> AnyArray:
        """Return some rows as an array."""
        return self._read(rows)


def as_array(given: Any, name: str = "vectors") -> AnyArray:
    """Return any object that holds numbers as an array, converted if necessary, or raise a ValueError."""
    held = as_held(given, name)
    return held[:] if isinstance(held, LazyRows) else held


def as_held(given: Any, name: str = "vectors") -> AnyArray | LazyRows:
    """Return an object that holds numbers, without a copy: an array if it is one, otherwise LazyRows."""
    if isinstance(given, LazyRows):
        return given
    if isinstance(given, np.ma.MaskedArray):
        given = _unmasked(given, name)
    if isinstance(given, np.ndarray):
        return given if given.dtype.char in "efd" else _plain(given, given, name)
    if (batches := arrow_batches(given)) is not None:
        parts = [as_rows(batch, name) for batch in batches if len(batch)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else np.empty((0, 0), np.float32)
    if hasattr(given, "detach") and hasattr(given, "device"):
        return _tensor(given, name)
    if _is_frame(given):
        return _frame(given, name)
    try:
        if hasattr(given, "__array__"):
            listed = LISTS.match(_kind(getattr(given, "dtype", None)))
            return _column(given, name) if listed else _plain(np.asarray(given), given, name)
        if hasattr(given, "__dlpack__"):
            return _from_dlpack(given, name)
    except (RuntimeError, TypeError, BufferError) as error:
        raise ValueError(f"{name} cannot be read as an array: {error}") from error
    array = np.asarray(given)
    if array.ndim == 0 and array.dtype == object:
        hint = ": collect it first" if hasattr(given, "collect") else ""
        raise ValueError(f"{name} are a {type(given).__name__}; expected an array, a tensor or a frame{hint}")
    return array


def _unmasked(given: np.ma.MaskedArray[Any, Any], name: str) -> AnyArray:
    """Return a masked array without its mask, or raise a ValueError that names the first masked place."""
    if np.ma.is_masked(given):
        place = ", ".join(map(str, np.argwhere(np.ma.getmaskarray(given))[0]))
        raise ValueError(
            f"{name}[{place}] is masked; every value is needed: use {name}.filled(value) or leave such rows out"
        )
    return given.data


def _kind(dtype: Any) -> str:
    return str(dtype).lower()


def _plain(array: AnyArray, owner: Any, name: str) -> AnyArray | LazyRows:
    """Return a NumPy array, or LazyRows if its elements are row objects or bfloat16 numbers of ml_dtypes."""
    if array.dtype == object and array.ndim == 1 and len(array) and _is_row(array[0]):
        return _column(owner, name)
    if array.dtype.name == "bfloat16":
        return _converted(array, lambda some: some.astype(np.float32))
    return array


def _converted(given: Any, convert: Callable[[Any], AnyArray]) -> AnyArray | LazyRows:
    if given.ndim == 2 and len(given):
        return LazyRows(len(given), lambda rows: convert(given[rows]))
    return convert(given)


def _tensor(tensor: Any, name: str) -> AnyArray | LazyRows:
    """Return a torch tensor without its gradient; dtypes that NumPy does not have are converted to float32."""
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} are on {tensor.device}; pass {name}.cpu()")
    if "bfloat16" in _kind(tensor.dtype) or "float8" in _kind(tensor.dtype):
        return _converted(tensor, lambda some: np.asarray(some.float()))
    try:
        return np.asarray(tensor)
    except (RuntimeError, TypeError) as error:  # sparse, or a view that has yet to be computed
        raise ValueError(f"{name} cannot be read as an array: {error}") from error


def _from_dlpack(given: Any, name: str) -> AnyArray:
    device = int(given.__dlpack_device__()[0])
    if device not in READABLE_DEVICES:
        raise ValueError(f"{name} are on DLPack device type {device}; only CPU memory (type 1) can be read")
    return np.from_dlpack(given)


def _is_frame(given: Any) -> bool:
    """Return whether an object is a data frame: it has named columns with types, as in pandas and polars."""
    return hasattr(type(given), "__len__") and hasattr(given, "columns") and hasattr(given, "dtypes")


def _is_row(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes, dict, set))


def _frame(frame: Any, name: str) -> AnyArray | LazyRows:
    """Return the only column of lists of a data frame, or all of its columns if they are floats."""
    take, kinds = getattr(frame, "iloc", frame), [_kind(dtype) for dtype in frame.dtypes]

    def has_lists(position: int) -> bool:
        if kinds[position] == "object" and len(frame):
            return _is_row(np.asarray(take[:1, position])[0])
        return LISTS.match(kinds[position]) is not None

    lists = [position for position in range(len(kinds)) if has_lists(position)]
    if len(lists) == 1:
        return as_held(take[:, lists[0]], name)
    if lists or not all(FLOATS.match(kind) for kind in kinds):
        columns = ", ".join(f"{column} ({kind})" for column, kind in zip(frame.columns, kinds, strict=True))
        hint = f": pass frame[{frame.columns[lists[0]]!r}]" if lists else ""
        raise ValueError(f"{name} have columns {columns}; expected one of lists, or floats alone{hint}")
    view = _as_view(frame)
    if view is not None and view.dtype != object:
        return view

    def read(rows: slice | AnyArray) -> AnyArray:
        some = np.asarray(take[rows])
        try:
            return some.astype(np.float64) if some.dtype == object else some  # a nullable dtype of pandas
        except TypeError as error:
            raise ValueError(f"{name} lack values: {error}") from error

    return LazyRows(len(frame), read) if len(frame) else np.empty(frame.shape, np.float32)


def _column(column: Any, name: str) -> AnyArray | LazyRows:
    """Return a column that has one list per row."""
    view = _as_view(column)
    if view is not None and view.ndim == 2:
        return view
    if len(column) == 0:
        return np.empty((0, 0), np.float32)
    take = getattr(column, "iloc", column)

    def read(rows: slice | AnyArray) -> AnyArray:
        numbers = range(*rows.indices(len(column))) if isinstance(rows, slice) else rows
        return _stacked(np.asarray(take[rows]), numbers, dimensions, name)

    dimensions = _dimensions(np.asarray(take[:1])[0], name)
    return LazyRows(len(column), read)


def _as_view(given: Any) -> AnyArray | None:
    """Return a data frame or column as an array if that needs no copy, otherwise None; None if it is empty."""
    try:
        return np.asarray(given.__array__(copy=False)) if len(given) else None
    except (ValueError, RuntimeError, TypeError):  # TypeError: `copy` is not supported
        return None


def _dimensions(row: Any, name: str) -> int:
    if not _is_row(row):
        raise ValueError(f"{name}[0] is {row!r}; expected numbers, one for each dimension")
    return len(row)


def _stacked(rows: AnyArray, numbers: Iterable[int], dimensions: int, name: str) -> AnyArray:
    """Return row objects as an (n, d) array, or raise a ValueError that names the first row that differs."""
    if rows.ndim == 2 and rows.dtype != object:
        return rows
    try:
        array = np.array(rows.tolist())
    except (ValueError, TypeError):
        array = rows
    if array.shape != (len(rows), dimensions) or array.dtype.kind not in "fiu":
        for number, row in zip(numbers, rows, strict=True):
            if not _is_row(row) or len(row) != dimensions or np.asarray(row).dtype.kind not in "fiu":
                raise ValueError(f"{name}[{number}] is {row!r:.60}; expected {dimensions} numbers")
    return array


def is_arrow(part: Any) -> bool:
    """Return whether an object is columnar data of pyarrow, without importing pyarrow."""
    return type(part).__module__.split(".")[0] == "pyarrow" and not hasattr(part, "strides")  # not a Tensor


def arrow_batches(vectors: Any) -> Iterator[Any] | None:
    """Return batches of an Arrow table, dataset, parquet file, reader, batch or column; otherwise None."""
    if not is_arrow(vectors):
        if not hasattr(vectors, "__arrow_c_stream__") or hasattr(vectors, "__array__"):
            return None
        return _stream_batches(vectors)
    parts: Iterable[Any] = [vectors]
    if hasattr(vectors, "iter_batches"):  # a parquet file
        parts = vectors.iter_batches()
    elif hasattr(vectors, "to_batches"):  # a table, a dataset
        parts = vectors.to_batches()
    elif hasattr(vectors, "chunks"):  # a column of a table
        parts = vectors.chunks
    elif hasattr(vectors, "read_next_batch"):  # a reader
        parts = vectors
    return iter(parts)


def _stream_batches(vectors: Any) -> Iterator[Any]:
    """Return batches of an object that only has Arrow's stream protocol, such as a query result."""
    try:
        import pyarrow
    except ImportError as error:
        kind = type(vectors).__name__
        raise ImportError(f"a {kind} is read by pyarrow: pip install 'pcpq[attributes]'") from error
    return iter(pyarrow.RecordBatchReader.from_stream(vectors))


def as_rows(part: Any, name: str = "vectors") -> Any:
    """Return a batch as an array; of an Arrow batch, the column of lists of floats."""
    if not is_arrow(part):
        return part
    column = part
    if hasattr(part, "schema"):
        names = [field.name for field in part.schema if "list<" in str(field.type)]
        if len(names) != 1:
            hint = f": pass table.select([{names[0]!r}])" if names else ""
            raise ValueError(
                f"columns of lists are {names} among {part.schema.names}; expected one, the {name}{hint}"
            )
        column = part.column(names[0])
    column = getattr(column, "storage", column)  # an extension array, such as tensors
    if column.null_count:
        raise ValueError(f"{name} have {column.null_count} nulls; null vectors are not supported")
    if not hasattr(column, "value_lengths"):
        return np.asarray(column)
    values = column.flatten()
    if len(column) == 0 or len(values) % len(column) or values.null_count:
        raise ValueError(
            f"{len(column)} vectors have {len(values)} values in all, {values.null_count} of them null"
        )
    rows = np.asarray(values).reshape(len(column), -1)
    lengths = np.asarray(column.value_lengths())
    if (lengths != rows.shape[1]).any():
        raise ValueError(f"{name} have {lengths.min()} to {lengths.max()} dimensions; all must have the same")
    return rows
