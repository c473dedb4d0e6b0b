"""Functions that benchmarks share: data sets, ground truth, recall, lists, result files."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import synthetic

from pcpq.quantizers.clustering import Section, assign, choose_seeds, cluster

# Whether vectors of a set are normalized; the others are searched by inner product.
UNIT_NORM = {"glove": True, "minilm": True, "lastfm48k": False, "npm": False, "text256": True} | dict.fromkeys(
    synthetic.SETS, True
)
BOOTSTRAPS = 10_000


@dataclass
class Data:
    """Base vectors, queries and their true neighbours; even queries are for tuning, odd ones for reporting."""

    name: str
    base: np.ndarray  # (n, d)
    all_queries: np.ndarray
    all_top: np.ndarray  # (n_queries, 10) true neighbours

    @property
    def tune(self) -> np.ndarray:
        """The half of the queries that is used for tuning."""
        return np.ascontiguousarray(self.all_queries[::2])

    @property
    def queries(self) -> np.ndarray:
        """The half of the queries that is reported."""
        return np.ascontiguousarray(self.all_queries[1::2])

    @property
    def top(self) -> np.ndarray:
        """True neighbours of the queries that are reported."""
        return self.all_top[1::2]


def data_folder(option: str | None) -> Path:
    """Return the folder of data sets: --data, or PCPQ_DATA."""
    folder = option or os.environ.get("PCPQ_DATA")
    if not folder:
        sys.exit("give the folder of data sets by --data or PCPQ_DATA")
    return Path(folder)


def default_metric(name: str) -> str:
    """Return the metric of a data set: cosine for normalized vectors, otherwise dot."""
    return "cosine" if UNIT_NORM[name] else "dot"


def load(folder: Path | None, name: str, metric: str | None = None, rows: int | None = None) -> Data:
    """Load NAME_base.npy (or some of its rows) and NAME_query.npy, and compute the true neighbours.

    A synthetic set is made instead, and needs no folder.
    """
    metric = metric or default_metric(name)
    if name in synthetic.SETS:
        base, queries = synthetic.make(name)
    else:
        assert folder is not None
        base = np.load(folder / f"{name}_base.npy").astype(np.float32)
        queries = np.load(folder / f"{name}_query.npy").astype(np.float32)
    if rows is not None:
        base = base[np.sort(np.random.default_rng(0).permutation(len(base))[:rows])]
    if metric == "cosine":
        base /= np.linalg.norm(base, axis=1, keepdims=True)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    # The nearest row is the one with the largest <q, x> - |x|^2 / 2.
    penalty = np.square(base).sum(1) / 2 if metric == "euclidean" else np.float32(0)
    top = [best_rows(queries[i : i + 100] @ base.T - penalty, 10) for i in range(0, len(queries), 100)]
    return Data(name, base, queries, np.concatenate(top))


def best_rows(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the (n_queries, k) columns of the largest scores, unordered."""
    return np.argpartition(-scores, k - 1, axis=1)[:, :k]


def shared_rows(found: np.ndarray, top: np.ndarray) -> float:
    """Return the mean share of the true neighbours that were found."""
    return float((found[:, :, None].astype(np.int64) == top[:, None, :]).any(1).mean())


@dataclass
class Lists:
    """A k-means partition by euclidean distance."""

    centroids: np.ndarray  # (n_lists, d)
    assigned: np.ndarray  # (n,)

    def residuals(self, base: np.ndarray) -> np.ndarray:
        """Return the base vectors minus the centroids of their lists."""
        return base - self.centroids[self.assigned]


def make_lists(base: np.ndarray, n_lists: int, seed: int = 0) -> Lists:
    """Return a k-means partition of all rows, with seeds from a sample."""
    generator = np.random.default_rng(seed)
    sample = base[generator.permutation(len(base))[:65_536]]
    seeds = choose_seeds(sample, n_lists, "k-means++", generator)
    centroids = cluster(Section(base), seeds, projective=False, max_iterations=25).codewords
    return Lists(centroids, assign(Section(base), centroids, projective=False)[0])


def summary(values: list[float], digits: int = 3) -> dict[str, Any]:
    """Return the median of rounds and its 95 % interval."""
    generator = np.random.default_rng(0)
    drawn = np.median(generator.choice(values, (BOOTSTRAPS, len(values))), axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {
        "median": round(float(np.median(values)), digits),
        "interval": [round(float(low), digits), round(float(high), digits)],
    }


def save(path: Path, result: dict[str, Any]) -> None:
    """Write a result as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {path}")
