import numpy as np
from neurips23.streaming.base import BaseStreamingANN

import pcpq

METRICS = {"euclidean": "euclidean", "ip": "dot", "angular": "cosine"}
# Lists are learned anew when there are so many times as many vectors as they were learned from.
GROWN = 4


class PCPQStreaming(BaseStreamingANN):
    """Vectors come and go while the index is searched; lists are learned from the first, and later anew.

    index_params: keep ("int8"). query_args: probes and rerank.
    """

    def __init__(self, metric, index_params):
        if metric not in METRICS:
            raise NotImplementedError(f"pcpq has no metric {metric}")
        self.metric, self.params, self.arguments = METRICS[metric], dict(index_params), {}

    def setup(self, dtype, max_pts, ndims):
        self.index, self.most, self.learned_from = None, max_pts, 0

    def insert(self, X, ids):
        X, ids = np.asarray(X, np.float32), np.asarray(ids, np.int64)
        if self.index is None:
            self.index = pcpq.Index(metric=self.metric, keep=self.params.get("keep", "int8"))
            self.index.fit(X, expected=self.most)
            self.learned_from = len(X)
        self.index.add(X, ids)
        if len(self.index) >= GROWN * self.learned_from:
            self.index.refit().result()
            self.learned_from = len(self.index)

    def delete(self, ids):
        self.index.remove(np.asarray(ids, np.int64))

    def replace(self, X, ids):
        self.index.upsert(np.asarray(X, np.float32), np.asarray(ids, np.int64))

    def set_query_arguments(self, query_args):
        self.arguments = dict(query_args)

    def query(self, X, k):
        self.res = self.index.search(X, k, **self.arguments).ids

    def __str__(self):
        settings = self.params | self.arguments
        return f"pcpq({', '.join(f'{name}={value}' for name, value in settings.items())})"
