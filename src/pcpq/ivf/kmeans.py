"""k-means by Euclidean distance: the rounds that place the centroids of inverted lists."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array
from pcpq.ivf.rounding import RoundedLists
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
    lists = RoundedLists.of(centroids)
    return nearest_lists(rows, lists if crowding is None else lists.crowded(crowding), threads)


def nearest_lists(
    rows: Vectors, lists: RoundedLists, threads: int | None
) -> tuple[NDArray[np.int32], Float32Array]:
    """Return the nearest of rounded lists for every row, and the squared distance."""
    native = lists.native
    assigned, distances = np.empty(len(rows), np.int32), np.empty(len(rows), np.float32)

    def assign(part: slice) -> None:
        _core.nearest_lists(
            native,
            rows=np.ascontiguousarray(rows[part]),
            out_lists=assigned[part],
            out_distances=distances[part],
        )

    map_threads(assign, assignment_batches(len(rows), lists, threads), threads)
    return assigned, distances


def two_lists(
    rows: Float32Array, lists: RoundedLists, weight: float, threads: int | None
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the nearest list of every row, and a second one: near, but in another direction (SOAR).

    `weight` is that of the error along the residual from the first.
    """
    native = lists.native
    first, second = np.empty((2, len(rows)), np.int32)

    def assign(part: slice) -> None:
        _core.two_lists(
            native,
            rows=np.ascontiguousarray(rows[part]),
            weight=weight,
            out_first=first[part],
            out_second=second[part],
        )

    map_threads(assign, assignment_batches(len(rows), lists, threads), threads)
    return first, second


def assignment_batches(n: int, lists: RoundedLists, threads: int | None) -> list[slice]:
    """Return slices that cover range(n), each short enough that Ctrl-C does not wait for the native call."""
    n_lists, d = lists.centroids.shape
    return batches(n, max(d, n_lists // LISTS_PER_DIMENSION), available_threads(threads))


def near_round(
    rows: Vectors,
    centroids: Float32Array,
    assigned: NDArray[np.int32],
    threads: int | None,
    crowding: Float32Array,
) -> tuple[NDArray[np.int32], Float32Array, Float32Array]:
    """Return the nearest centroid of every row among those near to its present one; squared distances; means.

    In late rounds of k-means few rows move to a list that is not near, and few move at all: all rows are read
    once, and those that move once more.
    """
    order, starts = rows_by_list(assigned, len(centroids))
    around = np.empty((len(centroids), NEAR_LISTS), np.int32)
    plain = RoundedLists.of(centroids)
    lists, crowded = plain.native, plain.crowded(crowding).native

    def look_around(part: slice) -> None:
        _core.lists_around(lists, rows=plain.centroids[part], out_lists=around[part])

    map_threads(look_around, assignment_batches(len(centroids), plain, threads), threads)
    found, distances = np.empty_like(assigned), np.empty(len(rows), np.float32)
    sums = np.zeros_like(centroids)

    def assign(some: slice) -> None:
        own = order[starts[some.start] : starts[some.stop]]
        some_rows = np.ascontiguousarray(rows[own])
        nearest, squares = np.empty(len(own), np.int32), np.empty(len(own), np.float32)
        _core.nearest_lists(
            crowded,
            rows=some_rows,
            near=around[some],
            stops=starts[some.start + 1 : some.stop + 1] - starts[some.start],
            out_lists=nearest,
            out_distances=squares,
        )
        staying = np.where(nearest == assigned[own], nearest - np.int32(some.start), np.int32(-1))
        _core.add_to_lists(rows=some_rows, lists=staying, out_sums=sums[some])
        found[own], distances[own] = nearest, squares

    map_threads(assign, slices(len(centroids), LISTS_AT_ONCE), threads)
    add_rows(sums, rows, np.flatnonzero(found != assigned), found, threads)
    return found, distances, means_of(sums, rows, found, distances)


def mean_centroids(
    rows: Vectors,
    assigned: NDArray[np.int32],
    distances: Float32Array,
    centroids: Float32Array,
    threads: int | None,
) -> Float32Array:
    """Return the means of the lists; the centroid of an empty list becomes a row that is far from its own."""
    sums = np.zeros_like(centroids)
    add_rows(sums, rows, np.arange(len(rows)), assigned, threads)
    return means_of(sums, rows, assigned, distances)


def add_rows(
    sums: Float32Array,
    rows: Vectors,
    numbers: NDArray[np.intp],
    assigned: NDArray[np.int32],
    threads: int | None,
) -> None:
    """Add the rows of these numbers to the sums of their lists."""
    lists = assigned[numbers]
    order, starts = rows_by_list(lists, len(sums))

    def add(some: slice) -> None:
        own = order[starts[some.start] : starts[some.stop]]
        if len(own):
            some_rows = np.ascontiguousarray(rows[numbers[own]])
            _core.add_to_lists(rows=some_rows, lists=lists[own] - np.int32(some.start), out_sums=sums[some])

    step = max(1, LISTS_AT_ONCE * len(assigned) // max(1, len(numbers)))
    map_threads(add, slices(len(sums), step), threads)


def means_of(
    sums: Float32Array,
    rows: Vectors,
    assigned: NDArray[np.int32],
    distances: Float32Array,
) -> Float32Array:
    """Return the means of lists from their sums; for an empty list, a row that is far from its own."""
    counts = np.bincount(assigned, minlength=len(sums))
    means: Float32Array = sums / np.maximum(counts, 1).astype(np.float32)[:, None]
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        means[empty] = rows[np.argsort(-distances, kind="stable")[: len(empty)]]
    return means


def rows_by_list(lists: NDArray[np.int32], n_lists: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the rows in the order of their lists, and the (L + 1,) starts of the lists."""
    counts = np.bincount(lists, minlength=n_lists)
    return np.argsort(lists, kind="stable"), np.concatenate([[0], np.cumsum(counts)])
