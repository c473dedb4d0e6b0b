"""The contestants of peers.py: pcpq, and other libraries with the kinds of index to choose from."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from peers_base import Contestant, K, Kind, Setting
from peers_graphs import FaissHnsw, Hnswlib, Symphony, Usearch
from peers_lists import FaissPQ, FaissRaBitQ, Lorann, RabitqLists, Scann

import pcpq

__all__ = ["Contestant", "Entry", "K", "Kind", "Pcpq", "Setting", "codes_entries", "entries", "label", "names"]


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
        if self.make.needs and not hasattr(importlib.import_module(self.make.module), self.make.needs):
            return f"this version of {self.make.package} has no {self.make.needs}"
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
    symphony = [
        {"degree": degree, "ef_construction": ef, "lifted": lift}
        for degree, ef, lift in product((32, 64, 96), (200, 400), lifted)
    ]
    # Distance alone: inner products of rows of different lengths need the additional coordinate.
    coded = [
        {"bits": bits, "M": m, "ef_construction": 200, "lifted": metric == "dot"}
        for bits, m in product((4, 6, 8), (16, 32))
    ]
    return [
        Entry("pcpq", Pcpq, ours or [{}, {"lists_per_vector": 2}]),
        Entry("faiss", FaissPQ, pq),
        Entry("rabitq", FaissRaBitQ, rabitq),
        Entry("scann", Scann, scann_kinds(metric)),
        Entry("hnswlib", Hnswlib, hnsw),
        Entry("usearch", Usearch, usearch),
        Entry("symphony", Symphony, symphony),
        Entry("rabitqlib", RabitqLists, [{"bits": bits, "lists": by} for bits, by in product((8, 32), lists)]),
        Entry("faiss-hnsw", FaissHnsw, coded),
        Entry("lorann", Lorann, [{"bits": bits, "rank": rank} for bits, rank in product((8, 4), (32, 16))]),
    ]


def names() -> list[str]:
    """Return the first words of the names of all contestants."""
    every = entries("dot", None) + codes_entries("dot", None)
    return list(dict.fromkeys(entry.name.split()[0] for entry in every))


def scann_kinds(metric: str) -> list[Kind]:
    """Return the kinds of ScaNN; most of them support only inner product."""
    if metric == "euclidean":
        return [{"threshold": None, "reorder": reorder} for reorder in ("float32", "int8", "bfloat16")]
    trees: list[Kind] = [{}, {"avq": 2.0}, {"spherical": True}]
    soar: list[Kind] = [
        {"avq": 2.0, "soar_lambda": strength, "overretrieve_factor": factor}
        for strength, factor in ((1.0, 1.5), (1.5, 1.5), (1.5, 2.0))
    ]
    kinds = [{"threshold": 0.2, "reorder": "float32", **tree} for tree in trees + soar]
    kinds += [
        {"threshold": 0.2, "reorder": reorder, **tree}
        for reorder, tree in product(("int8", "bfloat16"), (trees[1], soar[1], trees[2]))
    ]
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
    found += [Entry(f"rabitq {bits} bits", FaissRaBitQ, rabitq_kinds(bits, lists)) for bits in (3, 4, 5, 6)]
    return found + [
        Entry(f"rabitqlib {bits} bits", RabitqLists, [{"bits": bits, "lists": by} for by in lists])
        for bits in (4, 5, 6)
    ]


def label(kind: Kind) -> str:
    """Return options as one line of text."""
    return ", ".join(
        f"{name}=({label(value)})" if isinstance(value, dict) else f"{name}={value}"
        for name, value in kind.items()
    )
