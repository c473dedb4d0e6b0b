import pcpq

from ..base.module import BaseANN

METRICS = {"cosine": "cosine", "euclidean": "euclidean", "ip": "dot", "normalized": "dot"}


class PCPQ(BaseANN):
    """An index searched with as many lists and candidates as the query arguments say."""

    def __init__(self, metric, n_lists, keep):
        if metric not in METRICS:
            raise NotImplementedError(f"pcpq has no metric {metric}")
        self.metric, self.n_lists, self.keep = METRICS[metric], n_lists, keep
        self.arguments = {}

    def fit(self, X):
        self.index = pcpq.Index(metric=self.metric, n_lists=self.n_lists, keep=self.keep)
        self.index.fit(X, threads=1).add(X, threads=1)

    def set_query_arguments(self, probes, rerank):
        self.arguments = {"probes": probes, "rerank": rerank}

    def query(self, v, n):
        return self.index.search(v, n, **self.arguments).ids

    def batch_query(self, X, n):
        self.res = self.index.search(X, n, **self.arguments).ids

    def get_additional(self):
        return {"bytes_per_vector": sum(self.index.stats()["bytes_per_vector"].values())}

    def __str__(self):
        settings = {"n_lists": self.n_lists, "keep": self.keep} | self.arguments
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in settings.items())})"


class PCPQTarget(PCPQ):
    """A share of the true neighbours, from which lists and candidates follow as measured while building.

    It is measured with queries of the kind that will be asked, where the data set has some.
    """

    def __init__(self, metric, keep):
        super().__init__(metric, None, keep)

    def fit(self, X):
        self.index = pcpq.build(X, metric=self.metric, keep=self.keep, threads=1)

    def fit_ood(self, X_train, X_learn, X_learn_neighbors):
        self.index = pcpq.build(X_train, metric=self.metric, keep=self.keep, queries=X_learn, threads=1)

    def set_query_arguments(self, target_recall):
        self.arguments = {"target_recall": target_recall}
