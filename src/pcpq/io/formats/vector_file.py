"""What was found in a file: vectors as `pcpq.build` takes them, how many, and what they are called."""

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

# A row of more is a lie of a header, or nothing that is searched.
MOST_DIMENSIONS = 1 << 20
# Names in a message.
MOST_LISTED = 20


@dataclass(frozen=True)
class Wanted:
    """Which of the things in a file, by name; None: the only one."""

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
    rows : number of vectors; None if only reading the file tells
    dimensions : number of coordinates, d
    metric : "dot", "cosine" or "euclidean" if the file names one, otherwise None
    """

    path: Path
    format: str
    # (n, d) floats, or an iterable of (n_i, d) ones that can be gone through again
    vectors: Any
    rows: int | None  # as the file says, and held against it in reading; None if only reading tells
    dimensions: int
    metric: str | None = None  # "dot", "cosine" or "euclidean" if the file says
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
    """(n_i, d) batches of floats, read from a file by every iteration anew."""

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
    """How many rows make a batch."""
    return max(1, BATCH_ELEMENTS // dimensions)


def as_float32(rows: NDArray[Any]) -> Float32Array:
    """A copy; what float32 cannot hold is infinite, and refused by those who look at values."""
    with np.errstate(over="ignore"):
        return np.array(rows, np.float32)


def check_kind(path: Path, what: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Vectors are (n, d) real numbers, some of them; a ValueError if not."""
    if not is_real(dtype):
        raise ValueError(f"{path}: {what} of dtype {dtype}; expected floats of at most 64 bits or integers")
    if len(shape) != 2:
        raise ValueError(f"{path}: {what} of {len(shape)} axes, shape {shape}; expected 2: (n, d)")
    if shape[0] < 1:
        raise ValueError(f"{path}: {what} of shape {shape}: there are no vectors")
    check_dimensions(path, shape[1])


def check_dimensions(path: Path, dimensions: int) -> None:
    """A ValueError if no vector has so many."""
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise FormatError(f"{path}: vectors have {dimensions} dimensions; expected 1 to {MOST_DIMENSIONS}")


def is_real(dtype: np.dtype[Any]) -> bool:
    """Floats that NumPy computes with everywhere, or integers."""
    return dtype.kind in "iub" or (dtype.kind == "f" and dtype.itemsize <= 8)


def is_ready(rows: NDArray[Any]) -> bool:
    """Floats as this machine has them, which an index takes as they are?"""
    return rows.dtype.kind == "f" and rows.dtype.isnative and rows.flags.aligned


def as_floats(rows: NDArray[Any]) -> FloatArray:
    """Rows that an index takes; a copy if they are integers, or another machine's floats."""
    return rows if is_ready(rows) else as_float32(rows)


def array_or_batches(path: Path, rows: NDArray[Any]) -> Any:
    """A mapped array as it is if an index takes it, or else in batches of float32."""
    if is_ready(rows):
        return rows
    count, dimensions = rows.shape

    def read() -> Iterator[FloatArray]:
        return (as_float32(rows[part]) for part in slices(count, rows_at_once(dimensions)))

    return Batches(path, read, dimensions, count)


def gathered(rows: Iterable[array[float]], dimensions: int) -> Iterator[FloatArray]:
    """Rows that come one by one, as batches."""
    values, enough = array("f"), rows_at_once(dimensions) * dimensions
    for row in rows:
        values.extend(row)
        if len(values) >= enough:
            yield np.frombuffer(values, np.float32).reshape(-1, dimensions)
            values = array("f")
    if values:
        yield np.frombuffer(values, np.float32).reshape(-1, dimensions)


def chosen(path: Path, what: str, wanted: str | None, candidates: list[str], names: list[str]) -> str:
    """The name that is wanted, which must be there; the only candidate if none is."""
    if wanted is None and len(candidates) != 1:
        found = f"may be {listed(candidates)}; say which" if candidates else f"is none of {listed(names)}"
        raise ValueError(f"{path}: the {what} of vectors {found}")
    name = candidates[0] if wanted is None else wanted
    if names.count(name) != 1:
        raise ValueError(f"{path}: {what} {name!r} is there {names.count(name)} times; it has {listed(names)}")
    return name


def chosen_ids(path: Path, what: str, wanted: str | None, names: list[str]) -> str | None:
    """The name that is wanted; "id" if there is one, or else none."""
    if wanted is None and "id" not in names:
        return None
    return chosen(path, what, "id" if wanted is None else wanted, [], names)


def listed(names: list[str]) -> str:
    """Names for a message, not all of them if there are many."""
    some = ", ".join(repr(name) for name in names[:MOST_LISTED])
    return f"{some} and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else some or "none at all"
