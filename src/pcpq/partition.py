"""Lists: a k-means partition of the vectors, and which of them a query probes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pcpq.arrays import Float32Array, batches, slices
from pcpq.once import once
from pcpq.parallel import available_threads, map_threads

# Rows a list is trained on: with half as many, a search scans more rows for the same recall.
ROWS_A_LIST = 256
# Rounds of every other row, of all rows, and those in which a row only looks at lists around its own.
HALF_ROUNDS = 5
ROUNDS = 2
NEAR_ROUNDS = 6
NEAR_LISTS = 64
# So many rows a list, and half of them will do at first.
ROWS_TO_HALVE = 8
# How much farther away a list seems in training that is e times as full as the average, in units of its spread.
# Queries come where vectors are, so a full list is read often and has much to read: with smaller ones there,
# fewer rows are scanned for the same recall.
CROWDING = 0.1
# Deviations above its center at which a list's best row is taken to be.
LIKELY_BEST = 4.0
# Lists that a thread takes at once.
LISTS_AT_ONCE = 4
# So few lists need no order, and how often a direction of large spread is improved.
CLOSE_LISTS = 4
SPREAD_ROUNDS = 10


class Vectors(Protocol):
    """An array of float32, or what reads one when it is wanted."""

    def __len__(self) -> int:
        """How many."""

    def __getitem__(self, rows: slice | NDArray[Any]) -> Float32Array:
        """Some of them."""


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


class EveryOther:
    """Half of some vectors."""

    def __init__(self, rows: Vectors) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return (len(self.rows) + 1) // 2

    def __getitem__(self, rows: slice | NDArray[Any]) -> Float32Array:
        """Some of them."""
        numbers = np.arange(len(self))[rows] if isinstance(rows, slice) else rows
        return self.rows[2 * numbers]


def spreads_of(
    assigned: NDArray[np.int32], distances: Float32Array, n_lists: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """How many rows every list has, and their mean squared distance; of few rows, nearer to that of all."""
    counts = np.bincount(assigned, minlength=n_lists)
    total = np.bincount(assigned, np.maximum(distances, 0.0), n_lists)
    return counts, (total + total.sum() / counts.sum()) / (counts + 1)


def nearest_centers(
    rows: Vectors, centers: Float32Array, threads: int | None, crowding: Float32Array | float = 0.0
) -> tuple[NDArray[np.int32], Float32Array]:
    """The nearest center of every row, and the squared distance."""
    half_squares = 0.5 * (np.einsum("ij,ij->i", centers, centers) + crowding)
    assigned, distances = np.empty(len(rows), np.int32), np.empty(len(rows), np.float32)

    def assign(part: slice) -> None:
        assigned[part], distances[part] = nearest_of(rows[part], centers, half_squares)

    count = available_threads(threads)
    map_threads(assign, batches(len(rows), max(centers.shape), count), count)
    return assigned, distances


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


def nearest_of(
    rows: Float32Array, centers: Float32Array, half_squares: Float32Array
) -> tuple[NDArray[np.intp], Float32Array]:
    """The nearest of a few centers for some rows, and the squared distance."""
    scores = rows @ centers.T
    scores -= half_squares
    best = scores.argmax(axis=1)
    return best, np.einsum("ij,ij->i", rows, rows) - 2.0 * scores[np.arange(len(best)), best]


def nearer_centers(
    rows: Vectors,
    centers: Float32Array,
    assigned: NDArray[np.int32],
    threads: int | None,
    crowding: Float32Array,
) -> tuple[NDArray[np.int32], Float32Array]:
    """The same among the centers nearest to the one each row has: where k-means goes on, few rows go far."""
    order, starts = rows_by_list(assigned, len(centers))
    half_squares = 0.5 * np.einsum("ij,ij->i", centers, centers)
    around = np.argpartition(half_squares - centers @ centers.T, NEAR_LISTS, axis=1)[:, :NEAR_LISTS]
    half_squares += 0.5 * crowding
    found, distances = np.empty_like(assigned), np.empty(len(rows), np.float32)

    def assign(lists: slice) -> None:
        for number in range(lists.start, lists.stop):
            own, near = order[starts[number] : starts[number + 1]], around[number]
            best, distances[own] = nearest_of(rows[own], centers[near], half_squares[near])
            found[own] = near[best]

    map_threads(assign, slices(len(centers), LISTS_AT_ONCE), threads)
    return found, distances


def mean_centers(
    rows: Vectors,
    assigned: NDArray[np.int32],
    distances: Float32Array,
    centers: Float32Array,
    threads: int | None,
) -> Float32Array:
    """Means of the lists; an empty list takes a row that is far from its center."""
    order, starts = rows_by_list(assigned, len(centers))
    centers, counts = centers.copy(), np.diff(starts)

    def average(some: slice) -> None:
        filled = some.start + np.flatnonzero(counts[some])
        if len(filled):
            first = starts[some.start]
            sums = np.add.reduceat(rows[order[first : starts[some.stop]]], starts[filled] - first, axis=0)
            centers[filled] = sums / counts[filled, None]

    map_threads(average, slices(len(centers), LISTS_AT_ONCE), threads)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        centers[empty] = rows[np.argsort(-distances, kind="stable")[: len(empty)]]
    return centers


def rows_by_list(lists: NDArray[np.int32], n_lists: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Rows in the order of their lists, and (L + 1,) where each list begins."""
    counts = np.bincount(lists, minlength=n_lists)
    return np.argsort(lists, kind="stable"), np.concatenate([[0], np.cumsum(counts)])
