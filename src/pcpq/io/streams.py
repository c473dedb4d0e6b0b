"""Vectors from arrays, memory maps or iterators of batches: a sample to train on, then all, batch by batch."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import FloatArray, as_vectors, held_vectors
from pcpq.io.foreign_arrays import LazyRows, arrow_batches
from pcpq.io.foreign_arrays import as_rows as as_rows
from pcpq.util.batches import encoding_batches, slices

logger = logging.getLogger(__name__)
# Elements of an iterable that are held to train on, and rows whatever their size; how many rows at once.
MOST_SEEN = 1 << 26
LEAST_SEEN_ROWS = 4096
PIECE_ROWS = 4096
END = object()
NO_BATCHES = "vectors are empty: the iterable has no batches"


class Sample:
    """Some rows of an array, read when they are wanted."""

    def __init__(self, array: FloatArray | LazyRows, numbers: NDArray[np.intp] | None = None) -> None:
        self.array, self.numbers = array, numbers

    def __len__(self) -> int:
        return len(self.array) if self.numbers is None else len(self.numbers)

    @property
    def dimensions(self) -> int:
        """Of a row."""
        return int(self.array.shape[1])

    def split(self, rows: NDArray[np.intp]) -> tuple[Sample, Sample]:
        """These rows, and the others."""
        others = np.delete(np.arange(len(self)), rows)
        return Sample(self.array, self.numbers_of(rows)), Sample(self.array, self.numbers_of(others))

    def read(self, rows: slice | NDArray[Any]) -> FloatArray:
        """Some rows."""
        return self.array[rows if self.numbers is None else self.numbers[rows]]

    def numbers_of(self, rows: slice | NDArray[Any]) -> NDArray[np.intp]:
        """The numbers in the array of some rows."""
        return np.arange(len(self))[rows] if self.numbers is None else self.numbers[rows]


class Stream:
    """Vectors that are read once from start to end, after a look at some of them.

    `vectors` is anything that holds (n, d) floats (an array, a tensor, a frame), an iterable of such batches,
    or of Arrow: a table, a record batch or a reader of them, a parquet file. None is ever copied whole. An
    iterable is read once: what `sample` took of it comes again in the batches.
    """

    def __init__(self, vectors: Any) -> None:
        self.array: FloatArray | LazyRows | None = None
        self.rest: Iterator[Any] = iter(())
        if (batches := arrow_batches(vectors)) is not None:
            self.rest = batches
        elif isinstance(vectors, Iterable) and not _is_array(vectors) and not _is_nested(vectors):
            self.rest = iter(vectors)
        else:
            self.array = held_vectors(vectors)

    @classmethod
    def of(cls, vectors: Any) -> Stream:
        """Vectors that may be a stream already."""
        return vectors if isinstance(vectors, Stream) else cls(vectors)

    @property
    def dimensions(self) -> int:
        """Of a vector; of an iterable, the first batch is looked at, and comes again."""
        if self.array is not None:
            return int(self.array.shape[1])
        first = next(self.rest, END)
        if first is END:
            raise ValueError(NO_BATCHES)
        self.rest = chain([first], self.rest)
        return int(as_vectors(as_rows(first)).shape[1])

    @property
    def length(self) -> int | None:
        """How many vectors, if that is known."""
        return None if self.array is None else len(self.array)

    def sample(self, rows: int, generator: np.random.Generator) -> Sample:
        """At most so many vectors: drawn from an array, the first ones of an iterable."""
        if self.array is not None:
            everyone = len(self.array) <= rows
            numbers = None if everyone else np.sort(generator.permutation(len(self.array))[:rows])
            array = converted_once(self.array, numbers) if isinstance(self.array, LazyRows) else self.array
            return Sample(array, numbers)
        first = next(self.rest, END)
        if first is END:
            raise ValueError(NO_BATCHES)
        batch = as_vectors(as_rows(first))
        with Seen(min(rows, max(MOST_SEEN // batch.shape[1], LEAST_SEEN_ROWS)), batch) as seen:
            left = seen.take(batch)
            while len(left) == 0 and not seen.is_full and (more := next(self.rest, END)) is not END:
                left = seen.take(as_vectors(as_rows(more), dimensions=batch.shape[1]))
        self.rest = chain(seen.again(), emptied([left] if len(left) else []), self.rest)
        return Sample(seen.rows[: seen.most] if seen.count else batch[:rows])

    def batches(self, dimensions: int, threads: int) -> Iterator[FloatArray]:
        """All vectors, so many at a time that a batch for each thread fits the memory allowed."""
        parts, empty = self.rest if self.array is None else iter([self.array]), True
        for part in parts:
            vectors, empty = held_vectors(as_rows(part), dimensions=dimensions), False
            for rows in encoding_batches(len(vectors), dimensions, threads):
                yield as_vectors(vectors[rows], dimensions=dimensions)
            del part, vectors  # before the next is made
        if empty:
            raise ValueError(NO_BATCHES)


class Seen:
    """The first rows of an iterable, to train on and then to add: in a file without a name, not in memory."""

    def __init__(self, most: int, like: FloatArray) -> None:
        self.most, self.count = most, 0
        self.rows: FloatArray = like[:0].copy()  # (count, d) when all are there, read when they are wanted
        # Gone when nobody has its rows any more.
        self._file = tempfile.TemporaryFile(prefix="pcpq-", buffering=0)  # noqa: SIM115

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *error: object) -> None:
        if self.count:
            self.rows = np.memmap(self._file, self.rows.dtype, "r", shape=(self.count, self.rows.shape[1]))
        self._file.close()

    @property
    def is_full(self) -> bool:
        """Are there enough of them?"""
        return self.count >= self.most

    def take(self, batch: FloatArray) -> FloatArray:
        """Hold a batch, unless it is very large; of such, and of another precision, the rest comes back."""
        room = len(batch) if len(batch) <= self.most else self.most - self.count
        some = batch[: room if batch.dtype == self.rows.dtype else 0]
        try:
            for piece in slices(len(some), PIECE_ROWS):
                data = np.ascontiguousarray(some[piece]).data.cast("B")
                while data:
                    data = data[self._file.write(data) :]
        except OSError as error:  # the disk is full: what was held before must do
            logger.warning("only %d vectors to train on: %s", self.count, error)
            self.most, some = self.count, some[:0]
        self.count += len(some)
        return batch[len(some) :]

    def again(self) -> Iterator[FloatArray]:
        """All rows, some at a time."""
        for piece in slices(self.count, PIECE_ROWS):
            yield self.rows[piece]


def converted_once(rows: LazyRows, numbers: NDArray[np.intp] | None) -> LazyRows:
    """Rows that training reads again and again, converted once and held as those of an iterable are."""
    wanted, first = np.arange(len(rows)) if numbers is None else numbers, as_vectors(rows[:1])
    like = first.astype(np.promote_types(first.dtype, np.float32))
    with Seen(len(wanted), like) as seen, np.errstate(over="ignore"):  # what float32 cannot hold is refused
        for piece in slices(len(wanted), PIECE_ROWS):
            if len(seen.take(as_vectors(rows[wanted[piece]]).astype(like.dtype))):
                return rows  # there is no room

    def read(asked: slice | NDArray[Any]) -> FloatArray:
        some = np.arange(*asked.indices(len(rows))) if isinstance(asked, slice) else asked
        return seen.rows[np.searchsorted(wanted, some)]

    return LazyRows(len(rows), read, like)


def emptied(held: list[FloatArray]) -> Iterator[FloatArray]:
    """What a list holds, which then holds it no more."""
    while held:
        yield held.pop()


def _is_array(vectors: Any) -> bool:
    """Is it all of the vectors, rather than batches of them?"""
    return any(hasattr(vectors, protocol) for protocol in ("__array__", "__dlpack__"))


def _is_nested(vectors: Any) -> bool:
    """Is it a list of rows of numbers, rather than of batches?"""
    return isinstance(vectors, (list, tuple)) and (not vectors or np.ndim(vectors[0]) < 2)
