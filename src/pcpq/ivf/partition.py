"""Lists: a k-means partition of the vectors, and which of them a query probes."""

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
    mean_centers,
    nearer_centers,
    nearest_centers,
    spreads_of,
)
from pcpq.util.lazy import once

# Deviations above its center at which a list's best row is taken to be.
LIKELY_BEST = 4.0
# So few lists need no order, and how often a direction of large spread is improved.
CLOSE_LISTS = 4
SPREAD_ROUNDS = 10


@dataclass(frozen=True)
class Partition:
    """Lists around centers c, which have a middle m. A query ranks them by <q, c - m> + offset + |q| spread.

    Where distances count, q is what a query has beyond m.
    """

    centers: Float32Array  # (L, d)
    spreads: Float32Array  # (L,)  how far above its center's a list's best score may be
    offsets: Float32Array  # (L,)

    def __len__(self) -> int:
        return len(self.centers)

    @once
    def middle(self) -> Float32Array:
        """(d,) what the centers have in common."""
        middle: Float32Array = self.centers.mean(axis=0)
        return middle

    @once
    def around(self) -> Float32Array:
        """(L, d) the centers as seen from their middle."""
        return self.centers - self.middle

    def assign(self, rows: Float32Array, threads: int | None = None) -> NDArray[np.int32]:
        """(n,) the list of the nearest center for every row."""
        return nearest_centers(rows, self.centers, threads)[0]


def fit_partition(
    rows: Vectors,
    n_lists: int,
    metric: str,
    generator: np.random.Generator,
    threads: int | None,
) -> Partition:
    """k-means by euclidean distance, whatever the metric: inner products fall apart on norms that differ."""
    n_lists = min(n_lists, len(rows))
    centers = rows[np.sort(generator.permutation(len(rows))[:n_lists])]
    half = EveryOther(rows) if len(rows) >= ROWS_TO_HALVE * n_lists else rows
    all_rounds = HALF_ROUNDS + ROUNDS + NEAR_ROUNDS
    crowding = np.zeros(n_lists, np.float32)
    for number in range(all_rounds):
        some = half if number < HALF_ROUNDS else rows
        if number < all_rounds - NEAR_ROUNDS or n_lists <= 4 * NEAR_LISTS:
            assigned, distances = nearest_centers(some, centers, threads, crowding)
        else:
            assigned, distances = nearer_centers(some, centers, assigned, threads, crowding)
        centers = mean_centers(some, assigned, distances, centers, threads)
        counts, squared_spreads = spreads_of(assigned, distances - crowding[assigned], n_lists)
        # In units of a list's own spread: lists of short vectors lie close together. Halfway from what it was.
        fullness = np.log(np.maximum(counts / counts.mean(), 1.0))
        crowding = (0.5 * (crowding + CROWDING * squared_spreads * fullness)).astype(np.float32)
    order = neighbourly_order(centers)
    centers, spreads = centers[order], LIKELY_BEST * np.sqrt(squared_spreads / centers.shape[1])[order]
    partition = Partition(centers, spreads.astype(np.float32), np.zeros(n_lists, np.float32))
    if metric == "euclidean":
        squares = np.einsum("ij,ij->i", partition.around, partition.around)
        return replace(partition, spreads=np.zeros_like(squares), offsets=-0.5 * squares)
    return partition


def neighbourly_order(centers: Float32Array) -> NDArray[np.intp]:
    """An order in which lists that the same queries probe are near each other, and so are they in memory.

    Halves along the direction in which centers spread most, and halves of those.
    """
    order = np.arange(len(centers))
    if len(centers) <= CLOSE_LISTS:
        return order
    around = (centers - centers.mean(axis=0)).astype(np.float64)
    # Enough of the power method: any direction of large spread will do.
    direction = around[np.argmax(np.einsum("ij,ij->i", around, around))]
    for _ in range(SPREAD_ROUNDS):
        direction = (direction @ around.T) @ around
        length = np.linalg.norm(direction)
        if not length > 0:  # all the same
            return order
        direction /= length
    order = np.argsort(around @ direction, kind="stable")
    half = len(order) // 2
    return np.concatenate([part[neighbourly_order(centers[part])] for part in (order[:half], order[half:])])
