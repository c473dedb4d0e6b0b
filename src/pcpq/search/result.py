"""The result of a search."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array


class Result(NamedTuple):
    """Results of a search, best first: arrays of shape (n, k), or (k,) for a single query."""

    scores: Float32Array
    ids: NDArray[Any]  # int64, -1 where there is none; or str, None where there is none

    @property
    def distances(self) -> Float32Array:
        """The scores of a search by Euclidean distance: squared distances, where smaller is better."""
        return self.scores
