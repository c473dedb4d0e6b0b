"""The contestants of peers.py with inverted lists: Faiss, ScaNN, RaBitQLib and LoRANN.

Packages are imported when an index is built, so that a missing package only excludes its contestant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from peers_base import Contestant, K, RabitqSearch, Setting, saved_size


class FaissLists(Contestant):
    """The base of the inverted-list indexes of Faiss: lists by inner product or by distance."""

    package, module = "faiss-cpu", "faiss"

    def make(self, coarse: Any, d: int, metric: int) -> Any:
        """Return the untrained index over these lists."""
        raise NotImplementedError

    def wrap(self, lists: Any, metric: int) -> Any:
        """Return the index that is searched."""
        return lists

    def build(self, vectors: np.ndarray, metric: str) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        measure = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
        d, by_distance = vectors.shape[1], self.kind["lists"] == "euclidean"
        self.coarse = faiss.IndexFlatL2(d) if by_distance else faiss.IndexFlatIP(d)
        self.lists = self.make(self.coarse, d, measure)
        # Faiss normalizes centroids for inner product; lists by distance need the original lengths.
        self.lists.cp.spherical = not by_distance
        self.index = self.wrap(self.lists, measure)
        self.index.train(vectors)
        self.index.add(vectors)
        if by_distance and measure == faiss.METRIC_INNER_PRODUCT:
            # Rows are assigned to the nearest centroid, but queries rank lists by inner product, which is
            # also the part of the score that Faiss takes from the coarse search.
            centroids = self.coarse.reconstruct_n(0, self.coarse.ntotal)
            self.coarse = faiss.IndexFlatIP(d)
            self.coarse.add(centroids)
            self.lists.quantizer = self.coarse

    def configure(self, setting: Setting) -> None:
        self.lists.nprobe = setting.width
        if setting.rerank is not None:
            self.index.k_factor = setting.rerank / K

    def search(self, queries: np.ndarray) -> np.ndarray:
        return self.index.search(queries, K)[1]

    def search_one(self, query: np.ndarray) -> np.ndarray:
        return self.index.search(query[None], K)[1]

    def bytes_per_vector(self) -> float:
        import faiss

        return len(faiss.serialize_index(self.index)) / self.index.ntotal

    def code_bytes(self) -> float:
        return float(self.lists.code_size)


class FaissPQ(FaissLists):
    """IVF PQ fast scan of residuals, two dimensions and four bits per section, then reranking."""

    def make(self, coarse: Any, d: int, metric: int) -> Any:
        import faiss

        index = faiss.IndexIVFPQFastScan(coarse, d, self.n_lists, d // 2, 4, metric)
        index.by_residual = True
        return index

    def wrap(self, lists: Any, metric: int) -> Any:
        import faiss

        if self.kind["refine"] == "float32":
            return faiss.IndexRefineFlat(lists)
        type_of = {"float16": faiss.ScalarQuantizer.QT_fp16, "bfloat16": faiss.ScalarQuantizer.QT_bf16}
        self.kept = faiss.IndexScalarQuantizer(lists.d, type_of[self.kind["refine"]], metric)
        return faiss.IndexRefine(lists, self.kept)


class FaissRaBitQ(FaissLists):
    """IVF RaBitQ, codes only."""

    reranks = (None,)

    def make(self, coarse: Any, d: int, metric: int) -> Any:
        import faiss

        if self.kind["fast_scan"]:
            index = faiss.IndexIVFRaBitQFastScan(coarse, d, self.n_lists, metric, 32, True, self.kind["bits"])
        else:
            index = faiss.IndexIVFRaBitQ(coarse, d, self.n_lists, metric, True, self.kind["bits"])
        index.qb = self.kind["query_bits"]
        return index


class Scann(Contestant):
    """ScaNN: a tree, asymmetric hashing of two dimensions per block, and exact reordering."""

    package = module = "scann"

    def build(self, vectors: np.ndarray, metric: str) -> None:
        import scann
        from scann.scann_ops.py.scann_builder import ReorderType

        tree = {name: self.kind[name] for name in SCANN_TREE if name in self.kind}
        builder = scann.scann_ops_pybind.builder(
            vectors, K, "squared_l2" if metric == "euclidean" else "dot_product"
        )
        builder = builder.tree(self.n_lists, 10, training_sample_size=len(vectors), **tree)
        builder = builder.score_ah(2, anisotropic_quantization_threshold=self.kind["threshold"] or np.nan)
        builder = builder.reorder(100, ReorderType[self.kind["reorder"].upper()])
        self.index = builder.set_n_training_threads(1).build()
        self.count = len(vectors)

    def configure(self, setting: Setting) -> None:
        self.options = (K, setting.rerank, setting.width)

    def search(self, queries: np.ndarray) -> np.ndarray:
        return self.index.search_batched(queries, *self.options)[0]

    def search_one(self, query: np.ndarray) -> np.ndarray:
        return self.index.search(query, *self.options)[0]

    def bytes_per_vector(self) -> float:
        return saved_size(lambda folder: self.index.serialize(str(folder))) / self.count


SCANN_TREE = ("spherical", "avq", "soar_lambda", "overretrieve_factor")


class RabitqLists(RabitqSearch):
    """The inverted lists of RaBitQLib: codes only, or with kept vectors (32 bits).

    Its k-means has a seed, but its rotation is drawn anew for every index: recall changes a little.
    """

    reranks = (None,)

    def build(self, vectors: np.ndarray, metric: str) -> None:
        import rabitqlib

        self.count, d = vectors.shape
        spherical = self.kind["lists"] == "inner product"
        trained = rabitqlib.RaBitQKMeans(d, self.n_lists, seed=0, num_threads=1, spherical=spherical)
        trained.train(vectors)
        measure = "l2" if metric == "euclidean" else "ip"
        self.index = rabitqlib.IvfIndex(d, self.count, self.n_lists, self.kind["bits"], measure)
        self.index.build(vectors, trained.centroids, trained.assignments, num_threads=1)


class Lorann(Contestant):
    """LoRANN: lists with a regression of low rank each, and exact reranking.

    It is published as source only, to be compiled when it is installed.
    """

    package = module = "lorann"

    def build(self, vectors: np.ndarray, metric: str) -> None:
        import lorann

        self.count, d = vectors.shape
        self.index = lorann.LorannIndex(
            data=vectors,
            n_clusters=self.n_lists,
            global_dim=None if d < 200 else 128,  # as its documentation recommends
            quantization_bits=self.kind["bits"],
            rank=self.kind["rank"],
            distance=lorann.L2 if metric == "euclidean" else lorann.IP,
        )
        self.index.build(n_threads=1)

    def configure(self, setting: Setting) -> None:
        self.options = (K, setting.width, setting.rerank)

    def search(self, queries: np.ndarray) -> np.ndarray:
        return self.index.search(queries, *self.options, n_threads=1)

    search_one = search

    def bytes_per_vector(self) -> float:
        return saved_size(lambda folder: self.index.save(str(folder / "index"))) / self.count
