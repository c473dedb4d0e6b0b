"""Vectors from arrays, memory maps or iterators of batches: a training sample first, then all, in batches."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import FloatArray, as_vectors, held_vectors
from pcpq.io.foreign_arrays import LazyRows, arrow_batches, as_held
from pcpq.io.foreign_arrays import as_rows as as_rows
from pcpq.util.batches import encoding_batches, slices

logger = logging.getLogger(__name__)
# Limits of the training sample of an iterable: most elements, but at least so many rows. PIECE_ROWS rows are
# written or read in one step.
MOST_SEEN = 1 << 26
LEAST_SEEN_ROWS = 4096
PIECE_ROWS = 4096
END = object()
NO_BATCHES = "vectors are empty: the iterable has no batches"


class Sample:
    """Some rows of an array, read when they are needed."""

    def __init__(self, array: FloatArray | LazyRows, numbers: NDArray[np.intp] | None = None) -> None:
        self.array, self.numbers = array, numbers

    def __len__(self) -> int:
        return len(self.array) if self.numbers is None else len(self.numbers)

    @property
    def dimensions(self) -> int:
        """Number of dimensions."""
        return int(self.array.shape[1])

    def split(self, rows: NDArray[np.intp]) -> tuple[Sample, Sample]:
        """Return a sample of these rows, and a sample of all other rows."""
        others = np.delete(np.arange(len(self)), rows)
        return Sample(self.array, self.numbers_of(rows)), Sample(self.array, self.numbers_of(others))

    def read(self, rows: slice | NDArray[Any]) -> FloatArray:
        """Return some rows of the sample as an array."""
        return self.array[rows if self.numbers is None else self.numbers[rows]]

    def numbers_of(self, rows: slice | NDArray[Any]) -> NDArray[np.intp]:
        """Return the row numbers, in the underlying array, of some rows of the sample."""
        return np.arange(len(self))[rows] if self.numbers is None else self.numbers[rows]


class Stream:
    """Vectors that are read once from start to end, after a sample was taken for training.

    `vectors` is an (n, d) container of floats (array, tensor, data frame), an iterable of such batches, or
    Arrow data: a table, a record batch, a reader, a parquet file. It is never copied as a whole. An iterable is
    read once; the vectors that `sample` took from it are part of the batches as well.
    """

    def __init__(self, vectors: Any) -> None:
        self.array: FloatArray | LazyRows | None = None
        self.rest: Iterator[Any] = iter(())
        self.problem = NO_BATCHES  # of a stream without vectors
        if (batches := arrow_batches(vectors)) is not None:
            self.rest = batches
        elif isinstance(vectors, Iterable) and not _is_array(vectors) and not _is_nested(vectors):
            self.rest = iter(vectors)
        elif (held := as_held(vectors)).shape[:1] == (0,):
            self.rest, self.problem = iter([held]), f"vectors are empty: shape {held.shape}"
        else:
            self.array = held_vectors(held)

    @classmethod
    def of(cls, vectors: Any) -> Stream:
        """Return `vectors` as a stream; a stream is returned unchanged."""
        return vectors if isinstance(vectors, Stream) else cls(vectors)

    @property
    def dimensions(self) -> int:
        """Number of dimensions. For an iterable, the first batch is read; it is part of `batches` as well."""
        if self.array is not None:
            return int(self.array.shape[1])
        if self.is_empty:
            raise ValueError(self.problem)
        first = next(self.rest)
        self.rest = chain([first], self.rest)
        return int(as_vectors(as_rows(first)).shape[1])

    @property
    def is_empty(self) -> bool:
        """Whether there are no vectors. Of an iterable, batches are read up to the first one with vectors."""
        if self.array is not None:
            return False
        for part in self.rest:
            if not has_no_rows(part):
                self.rest = chain(drained([part]), self.rest)
                return False
        return True

    @property
    def length(self) -> int | None:
        """Number of vectors, or None if it is not known."""
        return None if self.array is None else len(self.array)

    def sample(self, rows: int, generator: np.random.Generator) -> Sample:
        """Return a sample of at most `rows` vectors: random rows of an array, the first rows of an iterable."""
        if self.array is not None:
            take_all = len(self.array) <= rows
            numbers = None if take_all else np.sort(generator.permutation(len(self.array))[:rows])
            array = converted_once(self.array, numbers) if isinstance(self.array, LazyRows) else self.array
            return Sample(array, numbers)
        if self.is_empty:
            raise ValueError(self.problem)
        batch = as_vectors(as_rows(next(self.rest)))
        with Seen(min(rows, max(MOST_SEEN // batch.shape[1], LEAST_SEEN_ROWS)), batch) as seen:
            left = seen.take(batch)
            while len(left) == 0 and not seen.is_full and (more := next(self.rest, END)) is not END:
                if not has_no_rows(more):
                    left = seen.take(as_vectors(checked_width(more, batch.shape[1], "those before have")))
        self.rest = chain(seen.again(), drained([left] if len(left) else []), self.rest)
        return Sample(seen.rows[: seen.most] if seen.count else batch[:rows])

    def batches(self, dimensions: int, threads: int) -> Iterator[FloatArray]:
        """Yield all vectors in batches; one batch per thread fits into the memory limit."""
        parts, empty = self.rest if self.array is None else iter([self.array]), True
        for part in parts:
            if has_no_rows(part):
                continue
            vectors, empty = checked_width(part, dimensions, "the index has"), False
            for rows in encoding_batches(len(vectors), dimensions, threads):
                yield as_vectors(vectors[rows], dimensions=dimensions)
            del part, vectors  # frees their memory before the next part is made
        if empty:
            raise ValueError(self.problem)


class Seen:
    """The first rows of an iterable, which are trained on and added later, in an unnamed temporary file."""

    def __init__(self, most: int, like: FloatArray) -> None:
        self.most, self.count = most, 0
        self.rows: FloatArray = like[:0].copy()  # (count, d), a memory map after the block
        # The system deletes the file when its last memory map is closed.
        self._file = tempfile.TemporaryFile(prefix="pcpq-", buffering=0)  # noqa: SIM115

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *error: object) -> None:
        if self.count:
            self.rows = np.memmap(self._file, self.rows.dtype, "r", shape=(self.count, self.rows.shape[1]))
        self._file.close()

    @property
    def is_full(self) -> bool:
        """Whether there are enough rows for training."""
        return self.count >= self.most

    def take(self, batch: FloatArray) -> FloatArray:
        """Store rows of a batch, and return the rows that are not stored.

        These are rows beyond the limit, of a batch larger than the limit, and batches of another dtype.
        """
        room = len(batch) if len(batch) <= self.most else self.most - self.count
        some = batch[: room if batch.dtype == self.rows.dtype else 0]
        try:
            for piece in slices(len(some), PIECE_ROWS):
                data = np.ascontiguousarray(some[piece]).data.cast("B")
                while data:
                    data = data[self._file.write(data) :]
        except OSError as error:  # the disk is full: train on the rows stored so far
            logger.warning("training on only %d vectors, because no more can be stored: %s", self.count, error)
            self.most, some = self.count, some[:0]
        self.count += len(some)
        return batch[len(some) :]

    def again(self) -> Iterator[FloatArray]:
        """Yield all stored rows, in pieces."""
        for piece in slices(self.count, PIECE_ROWS):
            yield self.rows[piece]


def has_no_rows(part: Any) -> bool:
    """Return whether a batch has no vectors; what is not a batch at all is left to later checks."""
    return hasattr(part, "__len__") and len(part) == 0


def checked_width(part: Any, dimensions: int, other: str) -> FloatArray | LazyRows:
    """Return a batch, or raise a ValueError that names both numbers of dimensions."""
    vectors = held_vectors(as_rows(part))
    if vectors.shape[1] != dimensions:
        raise ValueError(f"vectors have {vectors.shape[1]} dimensions, {other} {dimensions}")
    return vectors


def converted_once(rows: LazyRows, numbers: NDArray[np.intp] | None) -> LazyRows:
    """Return rows for training that are converted once and stored in a temporary file.

    Training reads its rows many times, so converting them at each read would be slow.
    """
    sampled, first = np.arange(len(rows)) if numbers is None else numbers, as_vectors(rows[:1])
    like = first.astype(np.promote_types(first.dtype, np.float32))
    with Seen(len(sampled), like) as seen, np.errstate(over="ignore"):  # too large values are rejected later
        for piece in slices(len(sampled), PIECE_ROWS):
            if len(seen.take(as_vectors(rows[sampled[piece]]).astype(like.dtype))):
                return rows  # the disk is full

    def read(requested: slice | NDArray[Any]) -> FloatArray:
        some = np.arange(*requested.indices(len(rows))) if isinstance(requested, slice) else requested
        return seen.rows[np.searchsorted(sampled, some)]

    return LazyRows(len(rows), read, like)


def drained(held: list[FloatArray]) -> Iterator[FloatArray]:
    """Yield the items of a list and remove them from it, so that their memory can be freed."""
    while held:
        yield held.pop()


def _is_array(vectors: Any) -> bool:
    """Return whether an object holds all vectors, not batches of them."""
    return any(hasattr(vectors, protocol) for protocol in ("__array__", "__dlpack__"))


def _is_nested(vectors: Any) -> bool:
    """Return whether an object is a list of rows of numbers, not of batches."""
    return isinstance(vectors, (list, tuple)) and (not vectors or np.ndim(vectors[0]) < 2)
