"""Lists: a k-means partition of the vectors, and which of them a query probes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pcpq.arrays import Float32Array, batches, slices
from pcpq.parallel import available_threads, map_threads

# Rows a list is trained on: with half as many, a search scans more rows for the same recall.
ROWS_A_LIST = 256
# Rounds in which a row may move to any list, and those in which it looks at lists around its own.
ROUNDS = 3
NEAR_ROUNDS = 8
NEAR_LISTS = 64
# Lists that a thread takes at once.
LISTS_AT_ONCE = 4
# So few lists need no order, and how often a direction of large spread is improved.
CLOSE_LISTS = 4
SPREAD_ROUNDS = 10
# Lengths that spread less than this share of their mean count as equal.
EQUAL_LENGTHS = 0.1
LENGTH_ROWS = 16_384
# Integers of coarse centers; with those of a query, by Cauchy and Schwarz, sums stay within 32 bits.
LARGEST_INTEGER = 32_700


class Vectors(Protocol):
    """An array of float32, or what reads one when it is wanted."""

    def __len__(self) -> int:
        """How many."""

    def __getitem__(self, rows: slice | NDArray[Any]) -> Float32Array:
        """Some of them."""


@dataclass(frozen=True)
class Partition:
    """Lists around centers. A query ranks them by <q, c> weight + offset."""

    centers: Float32Array  # (L, d)
    weights: Float32Array  # (L,)
    offsets: Float32Array  # (L,)

    def __len__(self) -> int:
        return len(self.centers)

    def assign(self, rows: Float32Array, threads: int | None = None) -> NDArray[np.int32]:
        """(n,) the list of the nearest center for every row."""
        return nearest_centers(rows, self.centers, threads)[0]

    def coarse(self) -> tuple[NDArray[np.int16], float]:
        """Centers as integers, eight lists and two coordinates side by side, and their unit.

        (ceil(L / 8), ceil(d / 2), 8, 2): one load holds two coordinates of eight lists.
        """
        n, d = self.centers.shape
        longest = float(np.linalg.norm(self.centers, axis=1).max())
        unit = longest / LARGEST_INTEGER if longest > 0 else 1.0
        padded = np.zeros(((n + 7) // 8 * 8, (d + 1) // 2 * 2), np.int16)
        padded[:n, :d] = np.rint(self.centers / np.float32(unit))
        groups = padded.reshape(-1, 8, padded.shape[1] // 2, 2)
        return np.ascontiguousarray(groups.transpose(0, 2, 1, 3)), unit


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
    few = n_lists <= 4 * NEAR_LISTS
    for _ in range(ROUNDS + (NEAR_ROUNDS if few else 0)):
        assigned, distances = nearest_centers(rows, centers, threads)
        centers = mean_centers(rows, assigned, distances, centers, threads)
    for _ in range(0 if few else NEAR_ROUNDS):
        assigned, distances = nearer_centers(rows, centers, assigned, threads)
        centers = mean_centers(rows, assigned, distances, centers, threads)
    centers = centers[neighbourly_order(centers)]
    squares = np.einsum("ij,ij->i", centers, centers)
    if metric == "euclidean":
        return Partition(centers, np.ones(n_lists, np.float32), -0.5 * squares)
    weights = np.ones_like(squares)
    lengths = np.linalg.norm(rows[slice(0, LENGTH_ROWS)], axis=1)
    if lengths.std() < EQUAL_LENGTHS * lengths.mean():
        # The unit center ranks better: a list of short mean is then spread out, not short of anything.
        weights = np.divide(1.0, np.sqrt(squares), out=weights, where=squares > 0)
    return Partition(centers, weights, np.zeros(n_lists, np.float32))


def nearest_centers(
    rows: Vectors, centers: Float32Array, threads: int | None
) -> tuple[NDArray[np.int32], Float32Array]:
    """The nearest center of every row, and the squared distance."""
    half_squares = 0.5 * np.einsum("ij,ij->i", centers, centers)
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
    rows: Vectors, centers: Float32Array, assigned: NDArray[np.int32], threads: int | None
) -> tuple[NDArray[np.int32], Float32Array]:
    """The same among the centers nearest to the one each row has: where k-means goes on, few rows go far."""
    order, starts = rows_by_list(assigned, len(centers))
    half_squares = 0.5 * np.einsum("ij,ij->i", centers, centers)
    around = np.argpartition(half_squares - centers @ centers.T, NEAR_LISTS, axis=1)[:, :NEAR_LISTS]
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
