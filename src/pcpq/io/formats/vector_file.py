"""The result of reading a vector file: vectors as `pcpq.build` takes them, their number, and ids."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.errors import FormatError
from pcpq.io.arrays import Float32Array, FloatArray
from pcpq.io.formats.files import parsing
from pcpq.util.batches import BATCH_ELEMENTS, slices

# A header with more dimensions is assumed to be damaged.
MOST_DIMENSIONS = 1 << 20
# Largest number of names in an error message.
MOST_LISTED = 20


@dataclass(frozen=True)
class Wanted:
    """Names of the columns, fields or datasets to read; None: the only one."""

    column: str | None = None
    id_column: str | None = None
    part: str | None = None


@dataclass(frozen=True, eq=False)
class VectorFile:
    """A file of vectors, which are memory-mapped or read in batches.

    Attributes
    ----------
    path, format : the file and its format
    vectors : (n, d) floats, or an iterable of (n_i, d) batches that can be read more than once
    rows : number of vectors; None if it is not known before the file is read
    dimensions : number of coordinates, d
    metric : "dot", "cosine" or "euclidean" if the file names one, otherwise None
    """

    path: Path
    format: str
    vectors: Any
    rows: int | None  # as stated in the file, and checked when it is read
    dimensions: int
    metric: str | None = None
    read_ids: Callable[[], Any] | None = field(default=None, repr=False)

    def ids(self) -> Any:
        """Read the ids: (n,) int64 or a list of str; None if the file has no ids."""
        if self.read_ids is None:
            return None
        with parsing(self.path):
            return self.read_ids()

    def array(self) -> Float32Array:
        """Read all vectors into memory, (n, d) float32. For queries."""
        if isinstance(self.vectors, np.ndarray):
            return as_float32(self.vectors)
        return np.concatenate([as_float32(part) for part in self.vectors])


class Batches:
    """(n_i, d) batches of floats; each iteration reads the file again."""

    def __init__(
        self, path: Path, read: Callable[[], Iterable[FloatArray]], dimensions: int, rows: int | None
    ) -> None:
        self.path, self.dimensions, self.rows = path, dimensions, rows
        self._read = read

    def __iter__(self) -> Iterator[FloatArray]:
        count = 0
        with parsing(self.path):
            for batch in self._read():
                if batch.shape[1] != self.dimensions:
                    raise FormatError(
                        f"{self.path}: vectors from row {count} on have {batch.shape[1]} dimensions, "
                        f"those before have {self.dimensions}"
                    )
                count += len(batch)
                if self.rows is not None and count > self.rows:
                    break
                yield batch
        if self.rows is not None and count != self.rows:
            than = "more" if count > self.rows else f"only {count}"
            raise FormatError(f"{self.path}: says it has {self.rows} vectors, but has {than}")


def rows_at_once(dimensions: int) -> int:
    """Return the number of rows of a batch."""
    return max(1, BATCH_ELEMENTS // dimensions)


def as_float32(rows: NDArray[Any]) -> Float32Array:
    """Return a float32 copy; values out of range become infinite, and are rejected by later checks."""
    with np.errstate(over="ignore"):
        return np.array(rows, np.float32)


def check_kind(path: Path, what: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless dtype and shape are those of (n, d) real numbers with at least one row."""
    if not is_real(dtype):
        raise ValueError(f"{path}: {what} of dtype {dtype}; expected floats of at most 64 bits or integers")
    if len(shape) != 2:
        raise ValueError(f"{path}: {what} of {len(shape)} axes, shape {shape}; expected 2: (n, d)")
    if shape[0] < 1:
        raise ValueError(f"{path}: {what} of shape {shape}: there are no vectors")
    check_dimensions(path, shape[1])


def check_dimensions(path: Path, dimensions: int) -> None:
    """Raise a FormatError if a number of dimensions is out of range."""
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise FormatError(f"{path}: vectors have {dimensions} dimensions; expected 1 to {MOST_DIMENSIONS}")


def is_real(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is integers, booleans, or floats of at most 64 bits."""
    return dtype.kind in "iub" or (dtype.kind == "f" and dtype.itemsize <= 8)


def is_ready(rows: NDArray[Any]) -> bool:
    """Return whether rows are aligned floats in native byte order, which an index takes without conversion."""
    return rows.dtype.kind == "f" and rows.dtype.isnative and rows.flags.aligned


def as_floats(rows: NDArray[Any]) -> FloatArray:
    """Return rows that an index takes; integers and floats in foreign byte order are copied to float32."""
    return rows if is_ready(rows) else as_float32(rows)


def array_or_batches(path: Path, rows: NDArray[Any]) -> Any:
    """Return a mapped array unchanged if an index takes it, otherwise as batches of float32."""
    if is_ready(rows):
        return rows
    count, dimensions = rows.shape

    def read() -> Iterator[FloatArray]:
        return (as_float32(rows[part]) for part in slices(count, rows_at_once(dimensions)))

    return Batches(path, read, dimensions, count)


def gathered(rows: Iterable[array[float]], dimensions: int) -> Iterator[FloatArray]:
    """Yield single rows as batches."""
    values, batch_size = array("f"), rows_at_once(dimensions) * dimensions
    for row in rows:
        values.extend(row)
        if len(values) >= batch_size:
            yield np.frombuffer(values, np.float32).reshape(-1, dimensions)
            values = array("f")
    if values:
        yield np.frombuffer(values, np.float32).reshape(-1, dimensions)


def chosen(path: Path, what: str, wanted: str | None, candidates: list[str], names: list[str]) -> str:
    """Return the requested name, which must exist once; without one, the only candidate."""
    if wanted is None and len(candidates) != 1:
        found = f"is none of {listed(names)}"
        if candidates:
            found = f"may be {listed(candidates)}; {say_which('column', candidates[0])}"
        raise ValueError(f"{path}: the {what} of vectors {found}")
    name = candidates[0] if wanted is None else wanted
    if names.count(name) != 1:
        raise ValueError(f"{path}: {what} {name!r} occurs {names.count(name)} times; there are {listed(names)}")
    return name


def chosen_ids(path: Path, what: str, wanted: str | None, names: list[str]) -> str | None:
    """Return the requested name of ids; without one, "id" if it exists, otherwise None."""
    if wanted is None and "id" not in names:
        return None
    return chosen(path, what, "id" if wanted is None else wanted, [], names)


def say_which(option: str, name: str) -> str:
    """Return how to choose a name, in Python and in the command line."""
    return f"say which: {option}={name!r} (command line: --{option} {name})"


def listed(names: list[str]) -> str:
    """Return names as text for an error message, shortened if there are many."""
    some = ", ".join(repr(name) for name in names[:MOST_LISTED])
    return f"{some} and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else some or "none at all"
