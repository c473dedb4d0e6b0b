"""The contestants of peers.py with graphs: hnswlib, usearch, SymphonyQG, and HNSW of Faiss over RaBitQ codes.

Packages are imported when an index is built, so that a missing package only excludes its contestant.
"""

from __future__ import annotations

import numpy as np
from peers_base import Contestant, K, RabitqSearch, Setting


class Graph(Contestant):
    """The base of the indexes of graph libraries."""

    has_lists = False
    narrowest = K
    reranks = (None,)

    def build(self, vectors: np.ndarray, metric: str) -> None:
        if self.kind.get("lifted"):
            # An additional coordinate gives all rows the same length without changing the order of results.
            # Neighbours in the graph are then close vectors, not only long ones.
            squares = np.square(vectors).sum(1)
            vectors = np.column_stack([vectors, np.sqrt(squares.max() - squares)])
        self.fill(np.ascontiguousarray(vectors), metric)

    def fill(self, vectors: np.ndarray, metric: str) -> None:
        """Build the graph."""
        raise NotImplementedError

    def prepare(self, queries: np.ndarray) -> np.ndarray:
        return np.pad(queries, ((0, 0), (0, 1))) if self.kind.get("lifted") else queries


class Hnswlib(Graph):
    """An index of hnswlib."""

    package = module = "hnswlib"

    def fill(self, vectors: np.ndarray, metric: str) -> None:
        import hnswlib

        count, d = vectors.shape
        self.index = hnswlib.Index("l2" if metric == "euclidean" else "ip", d)
        self.index.init_index(count, M=self.kind["M"], ef_construction=self.kind["ef_construction"])
        self.index.set_num_threads(1)
        self.index.add_items(vectors, num_threads=1)

    def configure(self, setting: Setting) -> None:
        self.index.set_ef(setting.width)

    def search(self, queries: np.ndarray) -> np.ndarray:
        return self.index.knn_query(queries, K, num_threads=1)[0]

    search_one = search

    def bytes_per_vector(self) -> float:
        return self.index.index_file_size() / self.index.get_current_count()


class Usearch(Graph):
    """An index of usearch."""

    package = module = "usearch"

    def fill(self, vectors: np.ndarray, metric: str) -> None:
        from usearch.index import Index

        self.index = Index(
            ndim=vectors.shape[1],
            metric="l2sq" if metric == "euclidean" else "ip",
            dtype=self.kind["dtype"],
            connectivity=self.kind["M"],
            expansion_add=self.kind["ef_construction"],
            enable_key_lookups=False,
        )
        self.index.add(np.arange(len(vectors)), vectors, threads=1)

    def configure(self, setting: Setting) -> None:
        self.index.expansion_search = setting.width

    def search(self, queries: np.ndarray) -> np.ndarray:
        return self.index.search(queries, K, threads=1).keys

    search_one = search

    def bytes_per_vector(self) -> float:
        return self.index.serialized_length / len(self.index)


class Symphony(RabitqSearch, Graph):
    """SymphonyQG of RaBitQLib: a graph whose nodes hold codes of their neighbours, and the vectors."""

    def fill(self, vectors: np.ndarray, metric: str) -> None:
        import rabitqlib

        self.count, d = vectors.shape
        # Rows of equal length have the same order by distance as by inner product.
        by_distance = metric != "dot" or self.kind["lifted"]
        self.index = rabitqlib.SymqgIndex(d, self.kind["degree"], "l2" if by_distance else "ip")
        self.index.build(vectors, self.kind["ef_construction"], num_threads=1)


class FaissHnsw(Graph):
    """HNSW of Faiss over RaBitQ codes, without vectors; it has only euclidean distance."""

    package, module = "faiss-cpu", "faiss"
    needs = "IndexHNSWRaBitQ"

    def fill(self, vectors: np.ndarray, metric: str) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.index = faiss.IndexHNSWRaBitQ(vectors.shape[1], self.kind["M"], self.kind["bits"])
        self.index.hnsw.efConstruction = self.kind["ef_construction"]
        self.index.train(vectors)
        self.index.add(vectors)

    def configure(self, setting: Setting) -> None:
        self.index.hnsw.efSearch = setting.width

    def search(self, queries: np.ndarray) -> np.ndarray:
        return self.index.search(queries, K)[1]

    def search_one(self, query: np.ndarray) -> np.ndarray:
        return self.search(query[None])

    def bytes_per_vector(self) -> float:
        import faiss

        return len(faiss.serialize_index(self.index)) / self.index.ntotal

    def code_bytes(self) -> float:
        import faiss

        return float(faiss.downcast_index(self.index.storage).code_size)
