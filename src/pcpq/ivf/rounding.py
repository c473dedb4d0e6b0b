"""Centroids as 8-bit integers, eight lists side by side, for native products with many of them."""

from __future__ import annotations

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

    The integers are (G, ceil(d / 4), 8, 4): one load covers four coordinates of eight lists; lists are padded to
    a multiple of 8. The starts are (G, 8, 2): they correct for QUERY_ZERO. The last is the largest length of a
    query in integers.
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


def rounded_lists(centroids: Float32Array, crowding: Float32Array | None = None) -> _core.RoundedLists:
    """Return centroids rounded for the assignment of rows, each in a unit of its own.

    `crowding` is added to the squared distances from each centroid.
    """
    n, d = centroids.shape
    if crowding is None:
        crowding = np.zeros(n, np.float32)
    # What rows and centroids share costs no precision if it is subtracted. Short rows are near to short
    # centroids: around a place near these, which is the mean if all lengths are alike, both stay short.
    lengths = np.linalg.norm(centroids, axis=1)
    floor = max(LEAST_LENGTH * float(lengths.mean()), float(np.finfo(np.float32).tiny))
    shares = 1 / (lengths + np.float32(floor))
    centre = (centroids * shares[:, None]).sum(axis=0) / shares.sum()
    around = centroids - centre
    squares = np.einsum("ij,ij->i", around, around)
    longest = longest_centroid(d)
    units = np.maximum(np.sqrt(squares) / np.float32(longest), np.abs(around).max(axis=1) / LARGEST_CENTROID_VALUE)
    units = np.maximum(units, np.finfo(np.float32).tiny)
    integers, starts, longest_row = side_by_side(around, units[:, None])
    padding = (0, -n % 8)
    return _core.RoundedLists(
        centroids=centroids,
        centre=centre,
        coarse=integers,
        starts=starts,
        units=np.pad(units, padding),
        penalties=np.pad(0.5 * (squares + crowding), padding, constant_values=np.inf),
        crowding=crowding,
        longest=longest,
        longest_row=longest_row,
    )
