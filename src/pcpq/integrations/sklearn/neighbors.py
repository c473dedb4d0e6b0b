"""Graphs of nearest neighbors, found with a pcpq index."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted, validate_data

from pcpq.building import build
from pcpq.index import Index
from pcpq.integrations.sklearn.graphs import Distances, Points, as_graph, include_own, nearest_first
from pcpq.integrations.sklearn.quantizing import FLOATS
from pcpq.io.arrays import FloatArray, Ids
from pcpq.quantizers import Quantizer
from pcpq.search.recall_curve import FEW, check_target
from pcpq.util.batches import slices
from pcpq.util.threads import available_threads
from pcpq.util.validation import whole_number

CHOICES = {"mode": ("distance", "connectivity"), "metric": ("euclidean", "cosine")}
# Number of queries per search, because an index makes a copy of its queries.
QUERIES = 1 << 14


class PCPQNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transform samples into a graph of nearest neighbors, like KNeighborsTransformer, with a pcpq index.

    The set of neighbors is approximate, their distances are exact. Up to 2,000 samples are searched exactly,
    unless `probes` is given.

    Parameters
    ----------
    n_neighbors : number of neighbors per sample. With mode="distance", a row has one more: the sample itself
    mode : "distance": entries are distances. "connectivity": entries are 1, and a sample counts as its own
        neighbor
    metric : "euclidean", or "cosine", which is 1 - cos
    target_recall, probes, rerank : parameters of Index.search
    quantizer, n_lists, keep, seed : parameters of Index
    threads : number of threads; None: all CPUs of the process

    Attributes
    ----------
    index_ : the pcpq.Index; None if samples are searched exactly
    n_samples_fit_ : number of fitted samples
    n_features_in_, feature_names_in_ : as in all estimators of scikit-learn
    """

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        mode: str = "distance",
        metric: str = "euclidean",
        target_recall: float | None = None,
        probes: int | None = None,
        rerank: int | None = None,
        quantizer: Quantizer | None = None,
        n_lists: int | None = None,
        keep: str | None = "int16",
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.mode = mode
        self.metric = metric
        self.target_recall = target_recall
        self.probes = probes
        self.rerank = rerank
        self.quantizer = quantizer
        self.n_lists = n_lists
        self.keep = keep
        self.seed = seed
        self.threads = threads

    def fit(self, X: Any, y: Any = None) -> PCPQNeighborsTransformer:
        """Build an index of (n, d) samples; y is ignored."""
        self._check_parameters()
        settings = {name: getattr(self, name) for name in ("metric", "quantizer", "n_lists", "keep", "seed")}
        Index(**settings)  # checks the settings, also if no index is built
        X = validate_data(self, X, dtype=FLOATS, order="C")
        self._points = Points(X, self.metric)
        self.index_: Index | None = None
        self._exact: Any = None
        if len(X) <= FEW and self.probes is None:
            self._exact = NearestNeighbors(metric=self.metric).fit(X)
        else:
            self.index_ = build(X, threads=self.threads, **settings)
        self.n_samples_fit_ = self._n_features_out = len(X)
        return self

    def transform(self, X: Any) -> Any:
        """Find the neighbors of (n, d) samples among the fitted samples.

        Returns
        -------
        graph : (n, n_samples_fit_) CSR matrix of float64 with the entries of every row ascending. A fitted
            sample is always its own first neighbor, with a stored distance of 0
        """
        check_is_fitted(self)
        self._check_parameters()
        X = validate_data(self, X, dtype=FLOATS, order="C", reset=False)
        distances, ids = self._nearest(X, self.n_neighbors, itself=self.mode == "distance")
        values = distances if self.mode == "distance" else np.ones_like(distances)
        limits = np.arange(len(ids) + 1) * ids.shape[1]
        return as_graph(values.ravel(), ids.ravel(), limits, self.n_samples_fit_)

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """Find the nearest fitted samples, like NearestNeighbors.kneighbors.

        Parameters
        ----------
        X : (n, d) samples; None: the fitted samples, each without itself
        n_neighbors : number of neighbors; None: the parameter of the transformer
        return_distance : whether to return distances as well

        Returns
        -------
        distances, ids : (n, n_neighbors) float64 and int64, nearest first; only ids if return_distance is False
        """
        check_is_fitted(self)
        self._check_parameters()
        wanted = self.n_neighbors if n_neighbors is None else _neighbors(n_neighbors)
        if X is None:
            distances, ids = self._nearest(self._points.vectors, wanted, itself=True)
            distances, ids = distances[:, 1:], ids[:, 1:]
        else:
            X = validate_data(self, X, dtype=FLOATS, order="C", reset=False)
            distances, ids = self._nearest(X, wanted, itself=False)
        return (distances, ids) if return_distance else ids

    def _nearest(self, X: FloatArray, n_neighbors: int, *, itself: bool) -> tuple[Distances, Ids]:
        """Return (n, k) distances and ids, nearest first; k is n_neighbors, plus 1 if `itself` is True."""
        k = n_neighbors + itself
        if k > self.n_samples_fit_:
            room = " and one more for the sample itself" if itself else ""
            have = f"n_samples = {self.n_samples_fit_} were fitted"
            raise ValueError(f"n_neighbors is {n_neighbors}{room}; {have}")
        same = self._points.are(X)
        queries = self._points if same else Points(X, self._points.metric)
        found_distances, found_ids = np.empty((len(X), k)), np.empty((len(X), k), np.int64)
        for part in slices(len(X), QUERIES):
            ids = self._search(X[part], k)
            own = np.arange(part.start, part.stop) if same else None
            if own is not None:
                include_own(ids, own)
            distances = self._points.distances(queries, part, ids, self.threads)
            found_distances[part], found_ids[part] = nearest_first(distances, ids, own)
        return found_distances, found_ids

    def _search(self, X: FloatArray, k: int) -> Ids:
        """Return (n, k) ids. An index probes further lists until it has k candidates."""
        if self.index_ is not None:
            limits = {name: getattr(self, name) for name in ("target_recall", "probes", "rerank", "threads")}
            return self.index_.search(X, k, **limits).ids
        exact: Ids = self._exact.kneighbors(X, k, return_distance=False).astype(np.int64)
        return exact

    def _check_parameters(self) -> None:
        _neighbors(self.n_neighbors)
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                choices = ", ".join(map(repr, allowed))
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected one of {choices}")
        for name in ("probes", "rerank"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1, 1 << 30)
        check_target(self.target_recall, self.probes)
        available_threads(self.threads)


def _neighbors(count: Any) -> int:
    return whole_number("n_neighbors", count, 1, 1 << 30)
