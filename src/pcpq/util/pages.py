"""Arrays in anonymous memory maps: pages are allocated when written, and released while rows are moved."""

from __future__ import annotations

import mmap
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pcpq.util.batches import slices

# Bytes that are moved or released in one step.
PIECE_BYTES = 1 << 22
# A mapping that is private to this process, on systems that have such a flag.
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


class Pages:
    """An array whose memory is allocated page by page when it is written."""

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        count = prod(shape)
        self._memory = mmap.mmap(-1, max(1, count * np.dtype(dtype).itemsize), **PRIVATE)
        self.array: NDArray[Any] = np.frombuffer(self._memory, dtype, count).reshape(shape)
        self._released = 0

    def pieces(self, count: int) -> list[slice]:
        """Return slices of PIECE_BYTES each that cover the first `count` rows."""
        return slices(count, max(1, PIECE_BYTES // max(1, self.array[:1].nbytes)))

    def release(self, rows: int) -> None:
        """Release the memory of the first rows, which are zero afterwards."""
        end = rows * self.array[:1].nbytes // mmap.PAGESIZE * mmap.PAGESIZE
        if end > self._released and hasattr(self._memory, "madvise"):
            self._memory.madvise(mmap.MADV_DONTNEED, self._released, end - self._released)
            self._released = end

    def moved(self, rows: int, room: int) -> Pages:
        """Return a larger array with the first rows, whose memory is released here as they are copied."""
        larger = Pages((room, *self.array.shape[1:]), self.array.dtype)
        for piece in self.pieces(rows):
            larger.array[piece] = self.array[piece]
            self.release(piece.stop)
        return larger
