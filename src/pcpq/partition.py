"""Lists: a k-means partition of the vectors, and which of them a query probes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pcpq.arrays import Float32Array, batches
from pcpq.parallel import available_threads, map_threads

ROUNDS = 10
# Rows a list is trained on, at most: more change centers little and take their time.
ROWS_A_LIST = 128
# Lengths that spread less than this share of their mean count as equal.
EQUAL_LENGTHS = 0.1
# Integers of coarse centers; with those of a query, by Cauchy and Schwarz, sums stay within 32 bits.
LARGEST_INTEGER = 32_700


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
    rows: Float32Array,
    n_lists: int,
    metric: str,
    generator: np.random.Generator,
    threads: int | None,
) -> Partition:
    """k-means by euclidean distance, whatever the metric: inner products fall apart on norms that differ."""
    n_lists = min(n_lists, len(rows))
    if len(rows) > ROWS_A_LIST * n_lists:
        rows = rows[np.sort(generator.permutation(len(rows))[: ROWS_A_LIST * n_lists])]
    centers = rows[np.sort(generator.permutation(len(rows))[:n_lists])].copy()
    for _ in range(ROUNDS):
        assigned, distances = nearest_centers(rows, centers, threads)
        centers = mean_centers(rows, assigned, distances, centers)
    squares = np.einsum("ij,ij->i", centers, centers)
    if metric == "euclidean":
        return Partition(centers, np.ones(n_lists, np.float32), -0.5 * squares)
    weights = np.ones_like(squares)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    if lengths.std() < EQUAL_LENGTHS * lengths.mean():
        # The unit center ranks better: a list of short mean is then spread out, not short of anything.
        weights = np.divide(1.0, np.sqrt(squares), out=weights, where=squares > 0)
    return Partition(centers, weights, np.zeros(n_lists, np.float32))


def nearest_centers(
    rows: Float32Array, centers: Float32Array, threads: int | None
) -> tuple[NDArray[np.int32], Float32Array]:
    """The nearest center of every row, and the squared distance less the row's own square."""
    half_squares = 0.5 * np.einsum("ij,ij->i", centers, centers)
    assigned, distances = np.empty(len(rows), np.int32), np.empty(len(rows), np.float32)

    def assign(part: slice) -> None:
        scores = rows[part] @ centers.T
        scores -= half_squares
        best = scores.argmax(axis=1)
        assigned[part] = best
        distances[part] = -2.0 * scores[np.arange(len(best)), best]

    count = available_threads(threads)
    map_threads(assign, batches(len(rows), max(rows.shape[1], len(centers)), count), count)
    return assigned, distances


def mean_centers(
    rows: Float32Array, assigned: NDArray[np.int32], distances: Float32Array, centers: Float32Array
) -> Float32Array:
    """Means of the lists; an empty list takes a row that is far from its center."""
    order = np.argsort(assigned, kind="stable")
    counts = np.bincount(assigned, minlength=len(centers))
    filled = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[filled]
    centers = centers.copy()
    centers[filled] = np.add.reduceat(rows[order], starts, axis=0) / counts[filled, None]
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        far = distances + np.einsum("ij,ij->i", rows, rows)
        centers[empty] = rows[np.argsort(-far, kind="stable")[: len(empty)]]
    return centers
