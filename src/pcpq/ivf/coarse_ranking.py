"""Centers of lists as searches have them: small integers, eight lists side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, empty_lines
from pcpq.ivf.partition import Partition

# Sums of products are 16 bits wide and may wrap on the way; only the last must fit, and by Cauchy and Schwarz
# it does if lengths do. Two products are added up at once and must fit too: 255 of a query with 64 of a center.
LARGEST_SUM = 32_767
LARGEST_CENTER = 64
LARGEST_QUERY = 127
# What is added to a query's integers, so that they are not negative.
QUERY_ZERO = 128
# The deviation of rounding.
ROUNDING = 12**-0.5
# Rounded centers do for ranking lists, and for scores to start from while rounding is a small part of the
# variance of scores within a list: codes get wrong much more.
SMALL_PART = 1 / 500


@dataclass(frozen=True, eq=False)
class Coarse:
    """Centers around their middle; docs/design/index.md has the sums. Lists up to a multiple of 8."""

    integers: NDArray[np.int8]  # (G, ceil(d / 4), 8, 4)  one load holds four coordinates of eight lists
    starts: NDArray[np.uint16]  # (G, 8, 2)  what sums of a list start from: queries are QUERY_ZERO too large
    unit: float
    longest_query: float  # in integers
    longest: float  # how far a center lies from the middle
    centers: Float32Array  # (L, d)  as they are
    middle: Float32Array  # (d,)

    @classmethod
    def of(cls, partition: Partition) -> Coarse:
        """Without the middle, what all centers have in common costs no precision."""
        centers = partition.around
        n, d = centers.shape
        longest, largest = float(np.linalg.norm(centers, axis=1).max()), float(np.abs(centers).max())
        # Half of the bits for queries; more if there are so many coordinates that rounding adds much length.
        length = min(LARGEST_SUM**0.5, LARGEST_SUM / d**0.5)
        unit = max(longest / length, largest / LARGEST_CENTER) or 1.0
        padded = np.zeros(((n + 7) // 8 * 8, (d + 3) // 4 * 4), np.int8)
        padded[:n, :d] = np.rint(centers / np.float32(unit))
        groups = padded.reshape(-1, 8, padded.shape[1] // 4, 4)
        turned = groups.transpose(0, 2, 1, 3)
        integers = empty_lines(turned.shape, np.int8)
        integers[:] = turned
        sums = groups.reshape(*groups.shape[:3], 2, 2).sum(axis=(2, 4), dtype=np.int64)
        rounded = np.sqrt((padded.astype(np.int64) ** 2).sum(axis=1).max())
        longest_query = max(LARGEST_SUM / max(rounded, 1.0) - 0.5 * d**0.5, 0.5)
        return cls(
            integers,
            (-QUERY_ZERO * sums).astype(np.uint16),
            unit,
            float(longest_query),
            longest,
            centers,
            partition.middle,
        )

    def products(self, rows: Float32Array) -> Float32Array:
        """(n, L) of rows with centers, rounded as native code rounds them."""
        n, d = self.centers.shape
        lengths, largest = np.linalg.norm(rows, axis=1), np.abs(rows).max(axis=1)
        units = np.maximum(lengths / np.float32(self.longest_query), largest / np.float32(LARGEST_QUERY))
        units = np.maximum(units, np.finfo(np.float32).tiny)[:, None]
        lists = self.integers.transpose(0, 2, 1, 3).reshape(-1, self.integers.shape[1] * 4)[:n, :d]
        found: Float32Array = (
            np.rint(rows / units) @ lists.T.astype(np.float32) * (units * np.float32(self.unit))
        )
        return found

    def is_rough(self, variances: Float32Array) -> bool:
        """Whether rounding matters beside (L,) variances of scores within lists, for a query of length 1."""
        rounding = ROUNDING**2 * (self.unit**2 + (self.longest / self.longest_query) ** 2)
        return rounding > SMALL_PART * float(variances.mean())

    def arguments(self, exact: bool) -> dict[str, Any]:
        """Arguments of `_core.Lists`; with exact centroids where scores must not start from rounded ones."""
        return {
            "coarse": self.integers,
            "starts": self.starts,
            "unit": self.unit,
            "longest_query": self.longest_query,
            "centroids": self.centers if exact else None,
            "mean": self.middle,
        }
