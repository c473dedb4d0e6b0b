"""Centroids as 8-bit integers, eight lists side by side, for native products with many of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array, empty_lines

# Sums of products are 16 bits wide. Partial sums may wrap; only the final sum must fit, and by Cauchy-Schwarz
# it fits if the lengths do. One instruction adds two products, which must fit too: 255 of a query, 64 of a
# centroid.
LARGEST_SUM = 32_767
LARGEST_CENTROID_VALUE = 64
LARGEST_QUERY = 127
# Added to the integers of a query, so that they are not negative.
QUERY_ZERO = 128
# Smallest unit: its inverse is finite.
TINY = float(np.finfo(np.float32).tiny)
# Added to the length of each centroid before it divides its weight, in units of the mean length.
LEAST_LENGTH = 1e-3


def longest_centroid(d: int) -> float:
    """Return the largest length of a centroid in integers.

    Queries get half of the bits; more if there are so many coordinates that rounding adds much length.
    """
    return float(min(LARGEST_SUM**0.5, LARGEST_SUM / d**0.5))


def side_by_side(
    centroids: Float32Array, units: Float32Array | np.float32
) -> tuple[NDArray[np.int8], NDArray[np.uint16], float]:
    """Return centroids as integers of their units, what their sums start from, and the longest query.

    The integers are (G, ceil(d / 4), 8, 4): one load covers four coordinates of eight lists, which are padded
    to a multiple of 8. The starts are (G, 8, 2): they correct for QUERY_ZERO. The last is the largest length of
    a query in integers.
    """
    n, d = centroids.shape
    padded = np.zeros(((n + 7) // 8 * 8, (d + 3) // 4 * 4), np.int8)
    padded[:n, :d] = np.rint(centroids / units)
    groups = padded.reshape(-1, 8, padded.shape[1] // 4, 4)
    transposed = groups.transpose(0, 2, 1, 3)
    integers = empty_lines(transposed.shape, np.int8)
    integers[:] = transposed
    sums = groups.reshape(*groups.shape[:3], 2, 2).sum(axis=(2, 4), dtype=np.int64)
    rounded = np.sqrt(np.square(padded, dtype=np.int32).sum(axis=1).max())
    longest_query = max(LARGEST_SUM / max(rounded, 1.0) - 0.5 * d**0.5, 0.5)
    return integers, (-QUERY_ZERO * sums).astype(np.uint16), float(longest_query)


@dataclass(frozen=True, eq=False)
class RoundedLists:
    """Centroids around a point, rounded to int8 in units of their own, by which rows find the nearest.

    The arithmetic is described in docs/design/index.md.
    """

    centroids: Float32Array  # (L, d)
    centre: Float32Array  # (d,)  subtracted from rows and centroids before they are rounded
    coarse: NDArray[np.int8]  # (G, ceil(d / 4), 8, 4)
    starts: NDArray[np.uint16]  # (G, 8, 2)
    units: Float32Array  # (8 G,)
    penalties: Float32Array  # (8 G,)  half of: the squared distance from the centre, and the crowding
    crowding: Float32Array  # (L,)  added to squared distances
    longest: float  # largest length of a centroid in integers
    longest_row: float  # and of a row

    @classmethod
    def of(cls, centroids: Float32Array) -> RoundedLists:
        """Round centroids."""
        n, d = centroids.shape
        # What rows and centroids share costs no precision if it is subtracted. Short rows are near to short
        # centroids: around a place near these, which is the mean if all lengths are alike, both stay short.
        lengths = np.linalg.norm(centroids, axis=1)
        least = np.float32(max(LEAST_LENGTH * float(lengths.mean()), TINY))
        shares = least / (lengths + least)
        centre = (centroids * shares[:, None]).sum(axis=0) / shares.sum()
        around = centroids - centre
        squares = np.einsum("ij,ij->i", around, around)
        longest = longest_centroid(d)
        largest = np.abs(around).max(axis=1)
        units = np.maximum(np.sqrt(squares) / np.float32(longest), largest / np.float32(LARGEST_CENTROID_VALUE))
        units = np.maximum(units, np.float32(TINY))
        integers, starts, longest_row = side_by_side(around, units[:, None])
        padding = (0, -n % 8)
        return cls(
            centroids=np.ascontiguousarray(centroids),
            centre=centre,
            coarse=integers,
            starts=starts,
            units=np.pad(units, padding),
            penalties=np.pad(0.5 * squares, padding, constant_values=np.inf),
            crowding=np.zeros(n, np.float32),
            longest=longest,
            longest_row=longest_row,
        )

    def crowded(self, crowding: Float32Array) -> RoundedLists:
        """Return the same centroids with numbers that are added to the squared distances from each."""
        more = np.pad(0.5 * (crowding - self.crowding), (0, len(self.penalties) - len(crowding)))
        return replace(self, penalties=self.penalties + more, crowding=crowding)

    @property
    def native(self) -> _core.RoundedLists:
        """The arrays as native functions take them."""
        return _core.RoundedLists(**vars(self))
