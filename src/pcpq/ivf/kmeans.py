"""k-means by Euclidean distance: the rounds that place the centroids of inverted lists."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array
from pcpq.ivf.rounding import rounded_lists
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
# A row is compared with so many rounded lists in about the time in which one of its coordinates is read and
# converted.
LISTS_PER_DIMENSION = 8


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
    rows: Vectors, centroids: Float32Array, threads: int | None, crowding: Float32Array | None = None
) -> tuple[NDArray[np.int32], Float32Array]:
    """Return the nearest centroid of every row, and the squared distance from it.

    `crowding` is added to the squared distances from each centroid.
    """
    return nearest_lists(rows, rounded_lists(centroids, crowding), centroids.shape, threads)


def nearest_lists(
    rows: Vectors, lists: _core.RoundedLists, shape: tuple[int, ...], threads: int | None
) -> tuple[NDArray[np.int32], Float32Array]:
    """Return the nearest of rounded lists for every row, and the squared distance; their shape is (L, d)."""
    assigned, distances = np.empty(len(rows), np.int32), np.empty(len(rows), np.float32)

    def assign(part: slice) -> None:
        _core.nearest_lists(
            lists,
            rows=np.ascontiguousarray(rows[part]),
            out_lists=assigned[part],
            out_distances=distances[part],
        )

    map_threads(assign, assignment_batches(len(rows), shape, threads), threads)
    return assigned, distances


def two_lists(
    rows: Float32Array, lists: _core.RoundedLists, shape: tuple[int, ...], weight: float, threads: int | None
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the nearest list of every row, and a second one: near, but in another direction (SOAR).

    `weight` is that of the error along the residual from the first.
    """
    first, second = np.empty((2, len(rows)), np.int32)

    def assign(part: slice) -> None:
        _core.two_lists(
            lists,
            rows=np.ascontiguousarray(rows[part]),
            weight=weight,
            out_first=first[part],
            out_second=second[part],
        )

    map_threads(assign, assignment_batches(len(rows), shape, threads), threads)
    return first, second


def assignment_batches(n: int, shape: tuple[int, ...], threads: int | None) -> list[slice]:
    """Return slices that cover range(n), each short enough that Ctrl-C does not wait for the native call."""
    n_lists, d = shape
    return batches(n, max(d, n_lists // LISTS_PER_DIMENSION), available_threads(threads))


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
    around = np.empty((len(centroids), NEAR_LISTS), np.int32)
    lists = rounded_lists(centroids)

    def look_around(part: slice) -> None:
        _core.lists_around(lists, rows=centroids[part], out_lists=around[part])

    map_threads(look_around, assignment_batches(len(centroids), centroids.shape, threads), threads)
    lists = rounded_lists(centroids, crowding)
    found, distances = np.empty_like(assigned), np.empty(len(rows), np.float32)

    def assign(some: slice) -> None:
        first, last = starts[some.start], starts[some.stop]
        own = order[first:last]
        nearest, squares = np.empty(len(own), np.int32), np.empty(len(own), np.float32)
        _core.nearest_lists(
            lists,
            rows=np.ascontiguousarray(rows[own]),
            near=around[some],
            stops=starts[some.start + 1 : some.stop + 1] - first,
            out_lists=nearest,
            out_distances=squares,
        )
        found[own], distances[own] = nearest, squares

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
