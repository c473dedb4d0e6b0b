"""Vectors from arrays, memory maps or iterators of batches: a sample to train on, then all, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.arrays import FloatArray, as_vectors
from pcpq.arrays import batches as slices_of

# Elements of an iterable that are held to train on, and rows whatever their size.
MOST_SEEN = 1 << 24
LEAST_SEEN_ROWS = 4096


class Sample:
    """Some rows of an array, read when they are wanted."""

    def __init__(self, array: FloatArray, numbers: NDArray[np.intp] | None = None) -> None:
        self.array, self.numbers = array, numbers

    def __len__(self) -> int:
        return len(self.array) if self.numbers is None else len(self.numbers)

    @property
    def dimensions(self) -> int:
        """Of a row."""
        return int(self.array.shape[1])

    def read(self, rows: slice | NDArray[Any]) -> FloatArray:
        """Some rows."""
        return self.array[rows if self.numbers is None else self.numbers[rows]]

    def numbers_of(self, rows: slice | NDArray[Any]) -> NDArray[np.intp]:
        """The numbers in the array of some rows."""
        return np.arange(len(self))[rows] if self.numbers is None else self.numbers[rows]


class Stream:
    """Vectors that are read once from start to end, after a look at some of them.

    `vectors` is anything with the array protocol, (n, d), an iterable of such batches, or of Arrow: a table, a
    record batch or a reader of them, a parquet file. None is ever copied whole. An iterable is read once: what
    `sample` took of it comes again in the batches.
    """

    def __init__(self, vectors: Any) -> None:
        self.array: FloatArray | None = None
        self.rest: Iterator[Any] = iter(())
        if (batches := arrow_batches(vectors)) is not None:
            self.rest = batches
        elif isinstance(vectors, Iterable) and not hasattr(vectors, "__array__") and not _is_nested(vectors):
            self.rest = iter(vectors)
        else:
            self.array = as_vectors(vectors)

    @classmethod
    def of(cls, vectors: Any) -> Stream:
        """Vectors that may be a stream already."""
        return vectors if isinstance(vectors, Stream) else cls(vectors)

    @property
    def length(self) -> int | None:
        """How many vectors, if that is known."""
        return None if self.array is None else len(self.array)

    def sample(self, rows: int, generator: np.random.Generator) -> Sample:
        """At most so many vectors: drawn from an array, the first ones of an iterable."""
        if self.array is not None:
            if len(self.array) <= rows:
                return Sample(self.array)
            return Sample(self.array, np.sort(generator.permutation(len(self.array))[:rows]))
        seen = self._first_rows(rows)
        self.rest = Again(seen, self.rest)
        return Sample(seen[:rows])

    def _first_rows(self, rows: int) -> FloatArray:
        """The first batches of an iterable that make so many rows, as one array that grows where it lies."""
        first = next(self.rest, None)
        if first is None:
            raise ValueError("vectors are empty: the iterable has no batches")
        seen: FloatArray = np.array(as_vectors(as_rows(first)))
        rows = min(rows, max(MOST_SEEN // seen.shape[1], LEAST_SEEN_ROWS))
        while len(seen) < rows and (batch := next(self.rest, None)) is not None:
            more = as_vectors(as_rows(batch), dimensions=seen.shape[1])
            start = len(seen)
            seen.resize((start + len(more), seen.shape[1]), refcheck=False)
            seen[start:] = more
        return seen

    def batches(self, dimensions: int, threads: int) -> Iterator[FloatArray]:
        """All vectors, so many at a time that a batch for each thread fits the memory allowed."""
        parts, empty = self.rest if self.array is None else iter([self.array]), True
        for part in parts:
            vectors, empty = as_vectors(as_rows(part), dimensions=dimensions), False
            for rows in slices_of(len(vectors), 2 * dimensions, threads):
                yield vectors[rows]
        if empty:
            raise ValueError("vectors are empty: the iterable has no batches")


class Again:
    """What was seen, given away, and then the rest."""

    def __init__(self, seen: FloatArray, rest: Iterator[Any]) -> None:
        self.seen, self.rest = [seen], rest

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.seen.pop() if self.seen else next(self.rest)


def _is_nested(vectors: Any) -> bool:
    """Is it a list of rows of numbers, rather than of batches?"""
    return isinstance(vectors, (list, tuple)) and (not vectors or np.ndim(vectors[0]) < 2)


def is_arrow(part: Any) -> bool:
    """Does pyarrow own it? Nobody has to have pyarrow to ask."""
    return type(part).__module__.split(".")[0] == "pyarrow"


def arrow_batches(vectors: Any) -> Iterator[Any] | None:
    """Batches of an Arrow table, dataset, parquet file, reader, record batch or column; None for all else."""
    if not is_arrow(vectors):
        return None
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


def as_rows(part: Any) -> Any:
    """A batch as an array; of an Arrow one, its column of lists of floats."""
    if not is_arrow(part):
        return part
    column = part
    if hasattr(part, "schema"):
        names = [field.name for field in part.schema if "list<" in str(field.type)]
        if len(names) != 1:
            raise ValueError(
                f"columns of lists are {names} among {part.schema.names}; expected one, the vectors"
            )
        column = part.column(names[0])
    if column.null_count:
        raise ValueError(f"vectors have {column.null_count} nulls; every vector must be there")
    values = column.flatten()
    if len(column) == 0 or len(values) % len(column) or values.null_count:
        raise ValueError(
            f"{len(column)} vectors have {len(values)} values in all, {values.null_count} of them null"
        )
    rows = np.asarray(values).reshape(len(column), -1)
    lengths = np.asarray(column.value_lengths())
    if (lengths != rows.shape[1]).any():
        raise ValueError(f"vectors have {lengths.min()} to {lengths.max()} dimensions; all must have the same")
    return rows
