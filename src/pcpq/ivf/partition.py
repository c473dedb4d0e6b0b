"""Inverted lists: a k-means partition of the vectors, and the terms by which a query ranks the lists."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array
from pcpq.ivf.kmeans import (
    CROWDING,
    HALF_ROUNDS,
    NEAR_LISTS,
    NEAR_ROUNDS,
    ROUNDS,
    ROWS_TO_HALVE,
    EveryOther,
    Vectors,
    mean_centroids,
    near_round,
    nearest_centroids,
    nearest_lists,
    spreads_of,
    two_lists,
)
from pcpq.ivf.rounding import RoundedLists
from pcpq.util.lazy import lazy

# Standard deviations above the centroid's score at which the best row of a list is assumed to score.
LIKELY_BEST = 4.0
# Up to this number, lists are left in their order.
CLOSE_LISTS = 4
# Weight of the error of a second list along the residual in the first: with 1 and 2 fewest rows are scanned.
SECOND_WEIGHT = 1.5
# Rounds of the power method that finds a direction of large variance.
SPREAD_ROUNDS = 10


@dataclass(frozen=True)
class Partition:
    """Inverted lists of a k-means partition.

    With centroids c, whose mean is m, a query q ranks lists by <q, c - m> + offset + |q| spread. With Euclidean
    distances, m is subtracted from the query first.
    """

    centroids: Float32Array  # (L, d)
    spreads: Float32Array  # (L,)  how far the best score of a list may exceed that of its centroid
    offsets: Float32Array  # (L,)

    def __len__(self) -> int:
        return len(self.centroids)

    @lazy
    def mean_centroid(self) -> Float32Array:
        """The (d,) mean of the centroids."""
        mean: Float32Array = self.centroids.mean(axis=0)
        return mean

    @lazy
    def centered(self) -> Float32Array:
        """The (L, d) centroids minus their mean."""
        return self.centroids - self.mean_centroid

    @lazy
    def rounded(self) -> RoundedLists:
        """The centroids as 8-bit integers, by which rows find the nearest."""
        return RoundedLists.of(self.centroids)

    def assign(self, rows: Float32Array, threads: int | None = None) -> NDArray[np.int32]:
        """Return the (n,) list of every row: the one with the nearest centroid."""
        return nearest_lists(rows, self.rounded, threads)[0]

    def assign_two(
        self, rows: Float32Array, threads: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the (n,) first list of every row, and the second, which is another if there are two lists."""
        return two_lists(rows, self.rounded, SECOND_WEIGHT, threads)


def fit_partition(
    rows: Vectors,
    n_lists: int,
    metric: str,
    generator: np.random.Generator,
    threads: int | None,
) -> Partition:
    """Partition rows by k-means with Euclidean distance.

    The distance is Euclidean for every metric: by inner product, the longest centroids would attract most rows.
    """
    n_lists = min(n_lists, len(rows))
    centroids = rows[np.sort(generator.permutation(len(rows))[:n_lists])]
    half = EveryOther(rows) if len(rows) >= ROWS_TO_HALVE * n_lists else rows
    all_rounds = HALF_ROUNDS + ROUNDS + NEAR_ROUNDS
    crowding = np.zeros(n_lists, np.float32)
    for number in range(all_rounds):
        some = half if number < HALF_ROUNDS else rows
        if number < all_rounds - NEAR_ROUNDS or n_lists <= 4 * NEAR_LISTS:
            assigned, distances = nearest_centroids(some, centroids, threads, crowding)
            centroids = mean_centroids(some, assigned, distances, centroids, threads)
        else:
            assigned, distances, centroids = near_round(some, centroids, assigned, threads, crowding)
        counts, squared_spreads = spreads_of(assigned, distances - crowding[assigned], n_lists)
        # In units of the list's own spread, since lists of short vectors are close together. The mean with the
        # previous value keeps list sizes from oscillating.
        fullness = np.log(np.maximum(counts / counts.mean(), 1.0))
        crowding = (0.5 * (crowding + CROWDING * squared_spreads * fullness)).astype(np.float32)
    order = similarity_order(centroids)
    centroids, spreads = centroids[order], LIKELY_BEST * np.sqrt(squared_spreads / centroids.shape[1])[order]
    partition = Partition(centroids, spreads.astype(np.float32), np.zeros(n_lists, np.float32))
    if metric == "euclidean":
        squares = np.einsum("ij,ij->i", partition.centered, partition.centered)
        return replace(partition, spreads=np.zeros_like(squares), offsets=-0.5 * squares)
    return partition


def similarity_order(centroids: Float32Array) -> NDArray[np.intp]:
    """Return an order of lists in which similar ones are neighbours, so that a query reads nearby memory.

    The centroids are split into halves along a direction of large variance, and each half is ordered in the
    same way.
    """
    order = np.arange(len(centroids))
    if len(centroids) <= CLOSE_LISTS:
        return order
    around = (centroids - centroids.mean(axis=0)).astype(np.float64)
    # A few rounds of the power method are enough: any direction of large variance serves.
    direction = around[np.argmax(np.einsum("ij,ij->i", around, around))]
    for _ in range(SPREAD_ROUNDS):
        direction = (direction @ around.T) @ around
        length = np.linalg.norm(direction)
        if not length > 0:  # all centroids are equal
            return order
        direction /= length
    order = np.argsort(around @ direction, kind="stable")
    half = len(order) // 2
    return np.concatenate([part[similarity_order(centroids[part])] for part in (order[:half], order[half:])])
