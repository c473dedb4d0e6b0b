"""Centroids rounded to int8, eight lists side by side, so that a search ranks all lists fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array
from pcpq.ivf.partition import Partition
from pcpq.ivf.rounding import LARGEST_CENTROID_VALUE, LARGEST_QUERY, longest_centroid, side_by_side
from pcpq.util.threads import one_blas_thread

# Standard deviation of the rounding error, in units of the last digit.
ROUNDING = 12**-0.5
# Rounded centroids are always accurate enough to rank lists. Scores start from them only while the rounding
# error is at most this share of the variance of scores within a list: the error of codes is then much larger.
SMALL_PART = 1 / 500


@dataclass(frozen=True, eq=False)
class Coarse:
    """Centroids relative to their mean, rounded to int8; lists are padded to a multiple of 8.

    The arithmetic is derived in docs/design/index.md.
    """

    integers: NDArray[np.int8]  # (G, ceil(d / 4), 8, 4)  one load covers four coordinates of eight lists
    starts: NDArray[np.uint16]  # (G, 8, 2)  start of the sums of a list: corrects for QUERY_ZERO in queries
    unit: float
    longest_query: float  # largest length of a query in integers
    longest: float  # largest distance of a centroid from the mean
    centroids: Float32Array  # (L, d)  not rounded
    mean: Float32Array  # (d,)  mean of the centroids

    @classmethod
    def of(cls, partition: Partition) -> Coarse:
        """Round the centroids of a partition."""
        # Relative to the mean: the part that all centroids share then costs no precision.
        centroids = partition.centered
        longest, largest = float(np.linalg.norm(centroids, axis=1).max()), float(np.abs(centroids).max())
        length = longest_centroid(centroids.shape[1])
        unit = max(longest / length, largest / LARGEST_CENTROID_VALUE) or 1.0
        integers, starts, longest_query = side_by_side(centroids, np.float32(unit))
        return cls(
            integers=integers,
            starts=starts,
            unit=unit,
            longest_query=longest_query,
            longest=longest,
            centroids=centroids,
            mean=partition.mean_centroid,
        )

    @one_blas_thread
    def products(self, rows: Float32Array) -> Float32Array:
        """Return the (n, L) inner products of rows and centroids, rounded as in native code."""
        n, d = self.centroids.shape
        lengths, largest = np.linalg.norm(rows, axis=1), np.abs(rows).max(axis=1)
        units = np.maximum(lengths / np.float32(self.longest_query), largest / np.float32(LARGEST_QUERY))
        units = np.maximum(units, np.finfo(np.float32).tiny)[:, None]
        lists = self.integers.transpose(0, 2, 1, 3).reshape(-1, self.integers.shape[1] * 4)[:n, :d]
        found: Float32Array = (
            np.rint(rows / units) @ lists.T.astype(np.float32) * (units * np.float32(self.unit))
        )
        return found

    def is_rough(self, variances: Float32Array) -> bool:
        """Return whether the rounding error matters, given (L,) variances of scores within lists.

        Variances are those for a query of length 1.
        """
        rounding = ROUNDING**2 * (self.unit**2 + (self.longest / self.longest_query) ** 2)
        return rounding > SMALL_PART * float(variances.mean())

    def arguments(self, exact: bool) -> dict[str, Any]:
        """Return arguments of `_core.Lists`; `exact` adds the centroids that are not rounded."""
        return {
            "coarse": self.integers,
            "starts": self.starts,
            "unit": self.unit,
            "longest_query": self.longest_query,
            "centroids": self.centroids if exact else None,
            "mean": self.mean,
        }
