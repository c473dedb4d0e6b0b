import numpy as np

import pcpq

from ..base.module import BaseANN

METRICS = {"angular": "cosine", "euclidean": "euclidean"}


class PCPQ(BaseANN):
    """An index searched with as many lists and candidates as the query arguments say."""

    def __init__(self, metric, n_lists, keep):
        if metric not in METRICS:
            raise NotImplementedError(f"pcpq has no metric {metric}")
        self.metric, self.n_lists, self.keep = METRICS[metric], n_lists, keep
        self.arguments = {}

    def fit(self, X):
        X = self._with_directions(X)
        self.index = pcpq.Index(metric=self.metric, n_lists=self.n_lists, keep=self.keep)
        self.index.fit(X).add(X)

    def set_query_arguments(self, probes, rerank):
        self.arguments = {"probes": probes, "rerank": rerank}

    def query(self, v, n):
        return self._search(v, n)

    def batch_query(self, X, n):
        self.res = self._search(X, n)

    def get_batch_results(self):
        return [row[row >= 0] for row in self.res]

    def get_additional(self):
        return {"bytes_per_vector": sum(self.index.stats()["bytes_per_vector"].values())}

    def done(self):
        self.index = None

    def __str__(self):
        settings = {"n_lists": self.n_lists, "keep": self.keep} | self.arguments
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in settings.items())})"

    def _search(self, queries, n):
        try:
            return self.index.search(queries, n, **self.arguments).ids
        except ValueError:
            if self.metric != "cosine" or np.all(np.any(queries, axis=-1)):
                raise
            return self.index.search(self._with_directions(queries), n, **self.arguments).ids

    def _with_directions(self, X):
        """Some angular sets hold zeros, which have no angle to anything: they get one, as good as any."""
        zero = ~np.any(X, axis=-1)
        if self.metric != "cosine" or not zero.any():
            return X
        X = np.array(X, dtype=np.float32)
        X[zero] = 1.0
        return X


class PCPQTarget(PCPQ):
    """A share of the true neighbours, from which lists and candidates follow as measured while building."""

    def __init__(self, metric, keep):
        super().__init__(metric, None, keep)

    def fit(self, X):
        self.index = pcpq.build(self._with_directions(X), metric=self.metric, keep=self.keep)

    def set_query_arguments(self, target_recall):
        self.arguments = {"target_recall": target_recall}
