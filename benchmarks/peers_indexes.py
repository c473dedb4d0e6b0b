"""The contestants of peers.py: pcpq, Faiss, ScaNN, hnswlib and usearch behind one interface.

Packages are imported when an index is built, so that a missing package only excludes its contestant.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import pcpq

K = 10
Kind = dict[str, Any]  # the options that an index is built with, besides its number of lists


@dataclass(frozen=True)
class Setting:
    """The setting of a search: lists (or graph nodes) to visit, and candidates to rerank, if any."""

    width: int
    rerank: int | None = None


class Contestant:
    """An index of one library: built once, configured by a setting, searched."""

    package = ""  # its name on PyPI
    module = ""
    has_lists = True
    narrowest = 1
    # A middle value comes first, because its time limits the time spent on the others.
    reranks: Sequence[int | None] = (100, 50, 200, 25, 400, 800)

    def __init__(self, kind: Kind, n_lists: int | None) -> None:
        self.kind, self.n_lists = kind, n_lists
        self.index: Any = None
        self.count = 0

    @property
    def widest(self) -> int:
        """The largest width that is worth trying."""
        return self.n_lists or 4096

    def build(self, vectors: np.ndarray, metric: str) -> None:
        """Build the index of all vectors."""
        raise NotImplementedError

    def prepare(self, queries: np.ndarray) -> np.ndarray:
        """Return queries in the form that the index needs; not timed."""
        return queries

    def configure(self, setting: Setting) -> None:
        """Set the setting of the next searches."""
        raise NotImplementedError

    def search(self, queries: np.ndarray) -> np.ndarray:
        """Return (n_queries, K) ids of the best rows of a batch of queries."""
        raise NotImplementedError

    def search_one(self, query: np.ndarray) -> np.ndarray:
        """Return the ids of the best rows of a single query."""
        raise NotImplementedError

    def bytes_per_vector(self) -> float:
        """Return the size of the serialized index per vector: all data that a search needs."""
        raise NotImplementedError

    def code_bytes(self) -> float | None:
        """Return the bytes of a vector's code alone, or None."""
        return None


class Pcpq(Contestant):
    """An index of pcpq; its kinds are options of pcpq.build."""

    package = module = "pcpq"

    def build(self, vectors: np.ndarray, metric: str) -> None:
        options = dict(self.kind)
        if "quantizer" in options:
            options["quantizer"] = quantizer_of(options["quantizer"])
        self.index = pcpq.build(vectors, metric=metric, n_lists=self.n_lists, **options)
        self.count = len(vectors)
        if "keep" in options and options["keep"] is None:
            self.reranks = (None,)

    def configure(self, setting: Setting) -> None:
        self.options: dict[str, Any] = {"k": K, "probes": setting.width, "threads": 1}
        if setting.rerank is not None:
            self.options["rerank"] = setting.rerank

    def search(self, queries: np.ndarray) -> np.ndarray:
        return self.index.search(queries, **self.options)[1]

    def search_one(self, query: np.ndarray) -> np.ndarray:
        return self.index.search(query, **self.options)[1]

    def bytes_per_vector(self) -> float:
        return float(sum(self.index.stats()["bytes_per_vector"].values()))

    def code_bytes(self) -> float | None:
        parts = self.index.stats()["bytes_per_vector"]
        return float(parts["codes"] + parts["corrections"])


def quantizer_of(options: Kind) -> Any:
    """Return {"method": "PQ", "section_size": 2} as pcpq.PQ(section_size=2); kinds are stored as JSON."""
    options = dict(options)
    return getattr(pcpq, options.pop("method"))(**options)


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


def saved_size(save: Callable[[Path], Any]) -> int:
    """Return the total size of the files that are saved to a folder, in bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        save(Path(scratch))
        return sum(path.stat().st_size for path in Path(scratch).rglob("*") if path.is_file())


@dataclass
class Entry:
    """A contestant by name, with the kinds to choose from."""

    name: str
    make: type[Contestant]
    kinds: list[Kind]

    def missing(self) -> str | None:
        """Return why the contestant cannot take part, or None."""
        if importlib.util.find_spec(self.make.module) is None:
            return f"{self.make.package} is not installed"
        return None


def entries(metric: str, ours: list[Kind] | None) -> list[Entry]:
    """Return the contestants with kept vectors; `ours` are options of pcpq.build to choose from."""
    inner = metric != "euclidean"
    lists = ("inner product", "euclidean") if inner else ("euclidean",)
    lifted = (False, True) if metric == "dot" else (False,)
    pq = [{"lists": a, "refine": b} for a, b in product(lists, ("float32", "float16", "bfloat16"))]
    rabitq = [kind for bits in (4, 6, 8) for kind in rabitq_kinds(bits, lists)]
    hnsw = [
        {"M": m, "ef_construction": ef, "lifted": lift}
        for (m, ef), lift in product(((16, 200), (24, 300), (32, 200)), lifted)
    ]
    usearch = [
        {"dtype": dtype, "M": m, "ef_construction": 200, "lifted": lift}
        for dtype, m, lift in product(("f32", "f16"), (16, 32), lifted)
    ]
    return [
        Entry("pcpq", Pcpq, ours or [{}]),
        Entry("faiss", FaissPQ, pq),
        Entry("rabitq", FaissRaBitQ, rabitq),
        Entry("scann", Scann, scann_kinds(metric)),
        Entry("hnswlib", Hnswlib, hnsw),
        Entry("usearch", Usearch, usearch),
    ]


def scann_kinds(metric: str) -> list[Kind]:
    """Return the kinds of ScaNN; most of them support only inner product."""
    if metric == "euclidean":
        return [{"threshold": None, "reorder": reorder} for reorder in ("float32", "bfloat16")]
    soar = {"soar_lambda": 1.5, "overretrieve_factor": 1.5}
    trees: list[Kind] = [{}, {"avq": 2.0}, {"avq": 2.0, **soar}, {"spherical": True}]
    kinds = [{"threshold": 0.2, "reorder": "float32", **tree} for tree in trees]
    kinds += [{"threshold": 0.2, "reorder": "bfloat16", **tree} for tree in trees[1::2]]
    if metric == "dot":  # with different lengths, the anisotropic loss is not always better
        kinds.append({"threshold": None, "reorder": "float32"})
    return kinds


def rabitq_kinds(bits: int, lists: Sequence[str]) -> list[Kind]:
    """Return both scanners of RaBitQ, each with query bits that lose hardly any recall."""
    return [
        {"bits": bits, "lists": by, "fast_scan": fast, "query_bits": query_bits}
        for by, (fast, query_bits) in product(lists, ((True, 8), (False, 4)))
    ]


def codes_entries(metric: str, ours: list[Kind] | None) -> list[Entry]:
    """Return the contestants without kept vectors; every code size is a separate contestant."""
    lists = ("inner product", "euclidean") if metric != "euclidean" else ("euclidean",)
    ours = ours or [
        {"quantizer": {"method": "QPCPQ", "section_size": size, "n_scales": scales}}
        for size, scales in ((3, 8), (2, 4), (2, 8), (2, 16))
    ]
    found = [Entry(f"pcpq {label(kind)}", Pcpq, [{**kind, "keep": None}]) for kind in ours]
    return found + [
        Entry(f"rabitq {bits} bits", FaissRaBitQ, rabitq_kinds(bits, lists)) for bits in (3, 4, 5, 6)
    ]


def label(kind: Kind) -> str:
    """Return options as one line of text."""
    return ", ".join(
        f"{name}=({label(value)})" if isinstance(value, dict) else f"{name}={value}"
        for name, value in kind.items()
    )
