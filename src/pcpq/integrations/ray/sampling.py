"""The sample that a build in one process would train on, gathered from wherever the vectors are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import FloatArray
from pcpq.io.streams import Sample, Stream

Gather = Callable[[NDArray[np.intp] | None], FloatArray]


class Scattered:
    """Some rows of an array that is nowhere as a whole, by their numbers in it."""

    def __init__(self, length: int, numbers: NDArray[np.intp] | None, rows: FloatArray) -> None:
        self.shape, self.dtype = (length, rows.shape[1]), rows.dtype
        self._numbers, self._rows = numbers, rows

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: slice | NDArray[np.intp]) -> FloatArray:
        """Rows that are among those gathered."""
        if self._numbers is None:
            return self._rows[numbers]
        wanted = np.arange(*numbers.indices(len(self))) if isinstance(numbers, slice) else numbers
        return self._rows[np.searchsorted(self._numbers, wanted)]


class GatheredStream(Stream):
    """So many vectors, of which a sample is asked for and gathered; the rest of them never comes here."""

    def __init__(self, length: int, dimensions: int, gather: Gather) -> None:
        self._length, self._dimensions, self._gather = length, dimensions, gather

    @property
    def dimensions(self) -> int:
        """Of a vector."""
        return self._dimensions

    @property
    def length(self) -> int:
        """How many."""
        return self._length

    def sample(self, rows: int, generator: np.random.Generator) -> Sample:
        """As Stream draws from an array."""
        numbers: NDArray[np.intp] | None = None
        if self._length > rows:
            numbers = np.sort(generator.permutation(self._length)[:rows])
        found: Any = Scattered(self._length, numbers, self._gather(numbers))
        return Sample(found, numbers)
