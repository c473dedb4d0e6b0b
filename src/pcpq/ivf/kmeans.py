"""k-means by Euclidean distance: the rounds that place the centroids of inverted lists."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array
from pcpq.util.batches import batches, slices
from pcpq.util.threads import available_threads, map_threads

# Training rows per list: with half as many, a search scans more rows for the same recall.
ROWS_PER_LIST = 256
# Rounds with every other row, rounds with all rows, and final rounds in which a row is compared only with the
# NEAR_LISTS lists nearest to its own.
HALF_ROUNDS = 5
ROUNDS = 2
NEAR_ROUNDS = 6
NEAR_LISTS = 64
# From this number of rows per list on, the first rounds use half of the rows.
ROWS_TO_HALVE = 8
# Added to the squared distance of a list that is e times as full as the average, in units of its mean squared
# distance. Queries are dense where vectors are dense, so a full list is probed often and each probe is long:
# with smaller lists there, fewer rows are scanned for the same recall.
CROWDING = 0.1
# Lists per task of a thread.
LISTS_AT_ONCE = 4


class Vectors(Protocol):
    """An array of float32 vectors, or an object that reads the rows of one on demand."""

    def __len__(self) -> int:
        """Return the number of vectors."""

    def __getitem__(self, rows: slice | NDArray[Any]) -> Float32Array:
        """Return the vectors of some rows."""


class EveryOther:
    """Every second row of some vectors."""

    def __init__(self, rows: Vectors) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return (len(self.rows) + 1) // 2

    def __getitem__(self, rows: slice | NDArray[Any]) -> Float32Array:
        """Return the vectors of some rows of the half."""
        numbers = np.arange(len(self))[rows] if isinstance(rows, slice) else rows
        return self.rows[2 * numbers]


def spreads_of(
    assigned: NDArray[np.int32], distances: Float32Array, n_lists: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the number of rows of every list, and their mean squared distance from the centroid.

    The mean of a list counts one more row, at the mean distance of all lists, so that short lists get stable
    values.
    """
    counts = np.bincount(assigned, minlength=n_lists)
    total = np.bincount(assigned, np.maximum(distances, 0.0), n_lists)
    return counts, (total + total.sum() / counts.sum()) / (counts + 1)


def nearest_centroids(
    rows: Vectors, centroids: Float32Array, threads: int | None, crowding: Float32Array | float = 0.0
) -> tuple[NDArray[np.int32], Float32Array]:
    """Return the nearest centroid of every row, and the squared distance from it.

    `crowding` is added to the squared distances from each centroid.
    """
    half_squares = 0.5 * (np.einsum("ij,ij->i", centroids, centroids) + crowding)
    assigned, distances = np.empty(len(rows), np.int32), np.empty(len(rows), np.float32)

    def assign(part: slice) -> None:
        assigned[part], distances[part] = nearest_of(rows[part], centroids, half_squares)

    count = available_threads(threads)
    map_threads(assign, batches(len(rows), max(centroids.shape), count), count)
    return assigned, distances


def nearest_of(
    rows: Float32Array, centroids: Float32Array, half_squares: Float32Array
) -> tuple[NDArray[np.intp], Float32Array]:
    """Return the nearest of a few centroids for some rows, and the squared distance from it."""
    scores = rows @ centroids.T
    scores -= half_squares
    best = scores.argmax(axis=1)
    return best, np.einsum("ij,ij->i", rows, rows) - 2.0 * scores[np.arange(len(best)), best]


def two_centroids(
    rows: Float32Array, centroids: Float32Array, weight: float, threads: int | None
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the nearest centroid of every row, and a second one: near, but in another direction (SOAR).

    `weight` is that of the error along the residual from the first.
    """
    half_squares = 0.5 * np.einsum("ij,ij->i", centroids, centroids)
    first, second = np.empty((2, len(rows)), np.int32)

    def assign(part: slice) -> None:
        scores = rows[part] @ centroids.T
        scores -= half_squares
        _core.two_lists(
            rows=np.ascontiguousarray(rows[part]),
            centroids=centroids,
            scores=scores,
            weight=weight,
            out_first=first[part],
            out_second=second[part],
        )

    count = available_threads(threads)
    map_threads(assign, batches(len(rows), max(centroids.shape), count), count)
    return first, second


def nearby_centroids(
    rows: Vectors,
    centroids: Float32Array,
    assigned: NDArray[np.int32],
    threads: int | None,
    crowding: Float32Array,
) -> tuple[NDArray[np.int32], Float32Array]:
    """Return the nearest centroid of every row among those near to its present one, and the squared distance.

    In late rounds of k-means few rows move to a list that is not near.
    """
    order, starts = rows_by_list(assigned, len(centroids))
    half_squares = 0.5 * np.einsum("ij,ij->i", centroids, centroids)
    around = np.argpartition(half_squares - centroids @ centroids.T, NEAR_LISTS, axis=1)[:, :NEAR_LISTS]
    half_squares += 0.5 * crowding
    found, distances = np.empty_like(assigned), np.empty(len(rows), np.float32)

    def assign(lists: slice) -> None:
        for number in range(lists.start, lists.stop):
            own, near = order[starts[number] : starts[number + 1]], around[number]
            best, distances[own] = nearest_of(rows[own], centroids[near], half_squares[near])
            found[own] = near[best]

    map_threads(assign, slices(len(centroids), LISTS_AT_ONCE), threads)
    return found, distances


def mean_centroids(
    rows: Vectors,
    assigned: NDArray[np.int32],
    distances: Float32Array,
    centroids: Float32Array,
    threads: int | None,
) -> Float32Array:
    """Return the means of the lists; the centroid of an empty list becomes a row that is far from its own."""
    order, starts = rows_by_list(assigned, len(centroids))
    centroids, counts = centroids.copy(), np.diff(starts)

    def average(some: slice) -> None:
        filled = some.start + np.flatnonzero(counts[some])
        if len(filled):
            first = starts[some.start]
            sums = np.add.reduceat(rows[order[first : starts[some.stop]]], starts[filled] - first, axis=0)
            centroids[filled] = sums / counts[filled, None]

    map_threads(average, slices(len(centroids), LISTS_AT_ONCE), threads)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        centroids[empty] = rows[np.argsort(-distances, kind="stable")[: len(empty)]]
    return centroids


def rows_by_list(lists: NDArray[np.int32], n_lists: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the rows in the order of their lists, and the (L + 1,) starts of the lists."""
    counts = np.bincount(lists, minlength=n_lists)
    return np.argsort(lists, kind="stable"), np.concatenate([[0], np.cumsum(counts)])
