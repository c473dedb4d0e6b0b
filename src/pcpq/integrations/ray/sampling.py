"""The training sample of a build in one process, gathered from distributed vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import FloatArray
from pcpq.io.streams import Sample, Stream

Gather = Callable[[NDArray[np.intp] | None], FloatArray]


class Scattered:
    """Sampled rows of a distributed array, indexed by their numbers in the whole array."""

    def __init__(self, length: int, numbers: NDArray[np.intp] | None, rows: FloatArray) -> None:
        self.shape, self.dtype = (length, rows.shape[1]), rows.dtype
        self._numbers, self._rows = numbers, rows

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: slice | NDArray[np.intp]) -> FloatArray:
        """Return rows by numbers, all of which must be in the sample."""
        if self._numbers is None:
            return self._rows[numbers]
        wanted = np.arange(*numbers.indices(len(self))) if isinstance(numbers, slice) else numbers
        return self._rows[np.searchsorted(self._numbers, wanted)]


class GatheredStream(Stream):
    """A stream of distributed vectors, of which only the sample is transferred to this process."""

    def __init__(self, length: int, dimensions: int, gather: Gather) -> None:
        self._length, self._dimensions, self._gather = length, dimensions, gather

    @property
    def dimensions(self) -> int:
        """Number of dimensions of the vectors."""
        return self._dimensions

    @property
    def length(self) -> int:
        """Number of vectors."""
        return self._length

    def sample(self, rows: int, generator: np.random.Generator) -> Sample:
        """Return the same random sample that Stream draws from an array of these vectors."""
        numbers: NDArray[np.intp] | None = None
        if self._length > rows:
            numbers = np.sort(generator.permutation(self._length)[:rows])
        found: Any = Scattered(self._length, numbers, self._gather(numbers))
        return Sample(found, numbers)
