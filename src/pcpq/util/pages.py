"""Arrays in pages of their own: they take memory when they are written, and move without being there twice."""

from __future__ import annotations

import mmap
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pcpq.util.batches import slices

# Moved or given away at once.
PIECE_BYTES = 1 << 22
# Memory of this process alone, where the system asks.
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


class Pages:
    """An array that is not there until it is written."""

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        count = prod(shape)
        self._memory = mmap.mmap(-1, max(1, count * np.dtype(dtype).itemsize), **PRIVATE)
        self.array: NDArray[Any] = np.frombuffer(self._memory, dtype, count).reshape(shape)
        self._given_back = 0

    def pieces(self, count: int) -> list[slice]:
        """The first rows, some megabytes at a time."""
        return slices(count, max(1, PIECE_BYTES // max(1, self.array[:1].nbytes)))

    def give_back(self, rows: int) -> None:
        """The memory of the first rows; they are zero from now on."""
        end = rows * self.array[:1].nbytes // mmap.PAGESIZE * mmap.PAGESIZE
        if end > self._given_back and hasattr(self._memory, "madvise"):
            self._memory.madvise(mmap.MADV_DONTNEED, self._given_back, end - self._given_back)
            self._given_back = end

    def moved(self, rows: int, room: int) -> Pages:
        """The first rows in an array with room for more; they are never there twice."""
        roomy = Pages((room, *self.array.shape[1:]), self.array.dtype)
        for piece in self.pieces(rows):
            roomy.array[piece] = self.array[piece]
            self.give_back(piece.stop)
        return roomy
