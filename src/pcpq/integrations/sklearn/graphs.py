"""Exact distances of neighbors, and graphs of neighbors as sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import get_config

from pcpq.io.arrays import FloatArray, Ids
from pcpq.util.batches import slices
from pcpq.util.threads import map_threads

Distances = NDArray[np.float64]

# Number of coordinates that are gathered and compared at once, so that they stay in the cache.
TOGETHER = 1 << 18


class Points:
    """Vectors of a metric, and exact distances between them and other vectors."""

    def __init__(self, vectors: FloatArray, metric: str) -> None:
        self.vectors, self.metric = vectors, metric
        self.lengths = lengths_of(vectors) if metric == "cosine" else None  # (n,)

    def are(self, vectors: FloatArray) -> bool:
        """Return whether these are the same vectors in the same order."""
        return vectors is self.vectors or np.array_equal(vectors, self.vectors)

    def distances(self, others: Points, rows: slice, ids: Ids, threads: int | None) -> Distances:
        """Return the (n, k) distances between n rows of other points and the vectors with (n, k) ids.

        Vectors are subtracted before they are squared: equal vectors get the distance 0, and small distances
        between long vectors are not lost to rounding. For unit vectors, 1 - <u, v> is |u - v|^2 / 2.
        """
        squares = np.empty(ids.shape)

        def compare(part: slice) -> None:
            numbers = np.arange(rows.start + part.start, rows.start + part.stop)[:, None]
            difference = self._units(ids[part])
            difference -= others._units(numbers)
            np.einsum("ijk,ijk->ij", difference, difference, out=squares[part])

        step = max(1, TOGETHER // (ids.shape[1] * self.vectors.shape[1]))
        map_threads(compare, slices(len(ids), step), threads)
        return squares / 2 if self.metric == "cosine" else np.sqrt(squares)

    def _units(self, ids: Ids) -> Distances:
        """Return the (n, k, d) vectors with these ids, scaled to length 1 if the metric is cosine."""
        vectors = self.vectors[ids].astype(np.float64, copy=False)  # no copy needed: indexing has made one
        if self.lengths is not None:
            vectors /= self.lengths[ids][:, :, None]
        return vectors


def lengths_of(vectors: FloatArray) -> Distances:
    """Return the (n,) lengths of vectors; raise a ValueError that names the first zero vector."""
    squares = np.empty(len(vectors))
    for part in slices(len(vectors), max(1, TOGETHER // vectors.shape[1])):
        rows = vectors[part].astype(np.float64)
        np.einsum("ij,ij->i", rows, rows, out=squares[part])
    if not squares.all():
        raise ValueError(f"X[{int(np.argmin(squares))}] is zero; it has no direction, which cosine needs")
    return np.sqrt(squares)


def include_own(ids: Ids, own: Ids) -> None:
    """Replace the last id of every row by the row's own id, unless the row contains it."""
    missing = ~(ids == own[:, None]).any(axis=1)
    ids[missing, -1] = own[missing]


def nearest_first(distances: Distances, ids: Ids, own: Ids | None) -> tuple[Distances, Ids]:
    """Sort every row by distance. A row's own id, if given, comes first, with a distance of 0."""
    if own is not None:
        distances[ids == own[:, None]] = -1.0
    order = np.argsort(distances, axis=1, kind="stable")
    distances, ids = np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)
    if own is not None:
        distances[:, 0] = 0.0
    return distances, ids


def symmetric_graph(graph: Any) -> Any:
    """Return a graph of neighbors with every edge in both directions, for UMAP with metric="precomputed".

    Parameters
    ----------
    graph : (n, n) CSR matrix of distances, from PCPQNeighborsTransformer.transform of the fitted samples

    Returns
    -------
    graph : (n, n) CSR matrix with the entries of every row ascending. Stored zeros are kept. An edge that
        existed in both directions gets the smaller distance
    """
    if not sparse.issparse(graph) or graph.shape[0] != graph.shape[1]:
        description = f"of shape {graph.shape}" if sparse.issparse(graph) else f"of type {type(graph).__name__}"
        raise ValueError(f"graph is {description}; expected a square sparse matrix")
    n, given = graph.shape[0], graph.tocoo()
    rows, columns = given.row.astype(np.int64), given.col.astype(np.int64)
    edges, values = np.concatenate([rows * n + columns, columns * n + rows]), np.tile(given.data, 2)
    order = np.lexsort((values, edges))
    edges, values = edges[order], values[order]
    first = np.flatnonzero(np.diff(edges, prepend=-1))
    (rows, columns), values = np.divmod(edges[first], n), values[first]
    limits = np.searchsorted(rows, np.arange(n + 1))
    order = np.lexsort((rows != columns, values, rows))
    return as_graph(values[order], columns[order], limits, n)


def as_graph(values: Distances, columns: Ids, limits: Ids, n_columns: int) -> Any:
    """Return a CSR matrix, or a sparse array if scikit-learn is configured to return sparse arrays."""
    kind = sparse.csr_array if get_config().get("sparse_interface") == "sparray" else sparse.csr_matrix
    return kind((values, columns, limits), shape=(len(limits) - 1, n_columns))
