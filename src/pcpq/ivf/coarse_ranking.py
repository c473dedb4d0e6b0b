"""Centroids rounded to int8, eight lists side by side, so that a search ranks all lists fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, empty_lines
from pcpq.ivf.partition import Partition
from pcpq.util.threads import one_blas_thread

# Sums of products are 16 bits wide. Partial sums may wrap; only the final sum must fit, and by Cauchy-Schwarz
# it fits if the lengths do. One instruction adds two products, which must fit too: 255 of a query, 64 of a
# centroid.
LARGEST_SUM = 32_767
LARGEST_CENTROID_VALUE = 64
LARGEST_QUERY = 127
# Added to the integers of a query, so that they are not negative.
QUERY_ZERO = 128
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
        n, d = centroids.shape
        longest, largest = float(np.linalg.norm(centroids, axis=1).max()), float(np.abs(centroids).max())
        # Queries get half of the bits; more if there are so many coordinates that rounding adds much length.
        length = min(LARGEST_SUM**0.5, LARGEST_SUM / d**0.5)
        unit = max(longest / length, largest / LARGEST_CENTROID_VALUE) or 1.0
        padded = np.zeros(((n + 7) // 8 * 8, (d + 3) // 4 * 4), np.int8)
        padded[:n, :d] = np.rint(centroids / np.float32(unit))
        groups = padded.reshape(-1, 8, padded.shape[1] // 4, 4)
        transposed = groups.transpose(0, 2, 1, 3)
        integers = empty_lines(transposed.shape, np.int8)
        integers[:] = transposed
        sums = groups.reshape(*groups.shape[:3], 2, 2).sum(axis=(2, 4), dtype=np.int64)
        rounded = np.sqrt((padded.astype(np.int64) ** 2).sum(axis=1).max())
        longest_query = max(LARGEST_SUM / max(rounded, 1.0) - 0.5 * d**0.5, 0.5)
        return cls(
            integers=integers,
            starts=(-QUERY_ZERO * sums).astype(np.uint16),
            unit=unit,
            longest_query=float(longest_query),
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
