"""The setting of the paper: an initial clustering, its residuals, the queries and their ground truth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array
from pcpq.ivf.kmeans import mean_centroids, nearest_centroids, rows_by_list
from pcpq.quantizers.clustering import choose_seeds
from pcpq.util.batches import slices
from pcpq.util.threads import map_threads

# Sample size for the initial centroids, and the limits of rounds and relative improvement.
SEEDING_ROWS = 65_536
ROUNDS = 25
TOLERANCE = 1e-4
# Number of rows that are compared with all queries at once.
ROWS_TOGETHER = 8192


@dataclass(frozen=True)
class Experiment:
    """Vectors sorted by list, queries, and the ground truth."""

    base: Float32Array  # (n, d)
    queries: Float32Array  # (n_queries, d)
    centroids: Float32Array  # (L, d)
    starts: NDArray[np.int64]  # (L + 1,) first rows of lists
    top: NDArray[np.intp]  # (n_queries,) row of the largest inner product; of equal ones, the first
    top_products: Float32Array  # (n_queries,)
    threads: int

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.centroids)

    @property
    def top_lists(self) -> NDArray[np.intp]:
        """(n_queries,) list that contains the true nearest row."""
        return np.searchsorted(self.starts, self.top, side="right") - 1

    def rows(self, number: int) -> slice:
        """Return the range of rows of a list."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def residuals(self, number: int) -> Float32Array:
        """Return the residuals of a list, its rows minus its centroid."""
        residuals: Float32Array = self.base[self.rows(number)] - self.centroids[number]
        return residuals

    def parts(self, number: int) -> tuple[Float32Array, Float32Array]:
        """Return the residuals and the rows of a list."""
        return self.residuals(number), self.base[self.rows(number)]

    def all_residuals(self) -> Float32Array:
        """Return the (n, d) residuals of all rows."""
        return self.base - np.repeat(self.centroids, np.diff(self.starts), axis=0)

    def rotated(self, matrix: Float32Array) -> Experiment:
        """Return this experiment with vectors, queries and centroids rotated."""
        return replace(
            self, base=self.base @ matrix, queries=self.queries @ matrix, centroids=self.centroids @ matrix
        )


def prepare(base: Float32Array, queries: Float32Array, n_lists: int, *, seed: int, threads: int) -> Experiment:
    """Cluster all rows with k-means++ and Lloyd's algorithm, and compute the ground truth."""
    centroids, assigned = initial_clusters(base, n_lists, seed=seed, threads=threads)
    order, starts = rows_by_list(assigned, n_lists)
    base = base[order]
    top, products = true_answers(base, queries, threads)
    return Experiment(base, queries, centroids, starts, top, products, threads)


def initial_clusters(
    base: Float32Array, n_lists: int, *, seed: int, threads: int
) -> tuple[Float32Array, NDArray[np.int32]]:
    """Return (L, d) centroids and the nearest centroid of every row."""
    generator = np.random.default_rng(seed)
    sample = base[np.sort(generator.permutation(len(base))[:SEEDING_ROWS])]
    centroids = choose_seeds(sample, n_lists, "k-means++", generator)
    assigned, distances = nearest_centroids(base, centroids, threads)
    for _ in range(ROUNDS):
        before = float(distances.sum(dtype=np.float64))
        centroids = mean_centroids(base, assigned, distances, centroids, threads)
        assigned, distances = nearest_centroids(base, centroids, threads)
        if not float(distances.sum(dtype=np.float64)) < (1 - TOLERANCE) * before:
            break
    return centroids, assigned


def true_answers(
    base: Float32Array, queries: Float32Array, threads: int
) -> tuple[NDArray[np.intp], Float32Array]:
    """Return the row of the largest inner product for every query, and that product."""

    def best_of(some: slice) -> tuple[NDArray[np.intp], Float32Array]:
        products = base[some] @ queries.T
        best = products.argmax(axis=0)
        return best + some.start, products[best, np.arange(len(queries))]

    found = map_threads(best_of, slices(len(base), ROWS_TOGETHER), threads)
    rows, products = (np.stack(part) for part in zip(*found, strict=True))
    best = products.argmax(axis=0), np.arange(len(queries))
    return rows[best], products[best]
