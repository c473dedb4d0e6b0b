from collections import defaultdict
from functools import reduce
from multiprocessing.pool import ThreadPool

import numpy as np
from benchmark.algorithms.pcpq_t1 import PCPQ
from benchmark.datasets import DATASETS
from neurips23.filter.base import BaseFilterANN

import pcpq


class PCPQFilter(PCPQ, BaseFilterANN):
    """Words of a query say which vectors may be found: few are all compared, of many lists are scanned.

    query_args: those of PCPQ, and few, how many vectors are compared one by one.
    """

    few = 20000

    def track(self):
        return "filter"

    def fit(self, dataset):
        super().fit(dataset)
        self._know_words(dataset)

    def load_index(self, dataset):
        there = super().load_index(dataset)
        if there:
            self._know_words(dataset)
        return there

    def set_query_arguments(self, query_args):
        self.few = query_args.get("few", type(self).few)
        super().set_query_arguments({name: value for name, value in query_args.items() if name != "few"})

    def filtered_query(self, X, filter, k):
        # Queries with the same words have one filter, which is prepared once.
        asked = defaultdict(list)
        for number in range(len(X)):
            words = filter.indices[filter.indptr[number] : filter.indptr[number + 1]]
            asked[tuple(sorted(words.tolist()))].append(number)
        self.res = np.full((len(X), k), -1, np.int64)

        def answer(group):
            words, numbers = group
            self.res[numbers] = self._search_among(X[numbers], self._vectors_with(words), k)

        with ThreadPool() as pool:
            pool.map(answer, asked.items())

    def __str__(self):
        return f"{super().__str__()[:-1]}, few={self.few})"

    def _know_words(self, dataset):
        ds = DATASETS[dataset]()
        if ds.search_type() == "knn_filtered":
            self.by_word = ds.get_dataset_metadata().T.tocsr()
            self.by_word.sort_indices()
            header = np.fromfile(ds.get_dataset_fn(), dtype="uint32", count=2)
            shape = (int(header[0]), int(header[1]))
            self.vectors = np.memmap(ds.get_dataset_fn(), dtype=ds.dtype, mode="r", offset=8, shape=shape)

    def _vectors_with(self, words):
        """Ascending numbers of the vectors that have all of these words."""
        starts, numbers = self.by_word.indptr, self.by_word.indices
        lists = [numbers[starts[word] : starts[word + 1]] for word in words]
        return reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), lists)

    def _search_among(self, queries, allowed, k):
        if len(allowed) > self.few:
            return self.index.search(queries, k, filter=pcpq.Bitmap(allowed), threads=1, **self.arguments).ids
        some = self.vectors[allowed].astype(np.float32)
        if self.metric == "cosine":
            some /= np.linalg.norm(some, axis=1, keepdims=True)
        scores = queries @ some.T
        if self.metric == "euclidean":
            scores -= 0.5 * np.einsum("ij,ij->i", some, some)
        best = np.argsort(-scores, axis=1)[:, :k]
        found = np.full((len(queries), k), -1, np.int64)
        found[:, : best.shape[1]] = allowed[best]
        return found
