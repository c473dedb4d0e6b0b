"""Measure the time of the scan per row, alone and inside a search; one thread, one core.

    python benchmarks/kernels.py --data FOLDER

bare   one list of 8,192 rows, whose codes fit into the L2 cache, k = 1: hardly any candidates
full   GloVe in 1,200 lists, scanned as by a search at recall 0.95: lists anywhere in memory, many candidates
Times are measured by the native code, best of many rounds, bare and full alternating. Results go to
benchmarks/results/kernels.json.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder, load, save, shared_rows

import pcpq
from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
STAGES = ("lists", "tables", "scan", "reranking")
QUERIES = 512
ROUNDS = 60
QUANTIZERS = {
    "PQ 2/16": lambda: pcpq.PQ(section_size=2),
    "QPCPQ 4/16/8": lambda: pcpq.QPCPQ(section_size=4, n_scales=8),
    "QPCPQ 2/16/16": lambda: pcpq.QPCPQ(section_size=2, n_scales=16),
}


class Run:
    """An index and a setting, measured repeatedly."""

    def __init__(self, index: pcpq.Index, queries: np.ndarray, k: int, probes: int, rerank: int) -> None:
        self.search = index._state.snapshot.parts[0].segment.searcher.search
        self.queries, self.probes, self.rerank = queries, probes, rerank
        self.ids = np.empty((len(queries), k), np.int64)
        self.scores = np.empty((len(queries), k))
        counts = np.empty((len(queries), 3), np.int64)
        self.search(
            queries=queries,
            probes=probes,
            rerank=rerank,
            out_ids=self.ids,
            out_scores=self.scores,
            out_counts=counts,
        )
        self.rows = counts[:, 1]
        self.best = {"batch": np.full(4, np.inf), "single": np.full(4, np.inf)}

    def batch(self) -> None:
        """Measure all queries in one batch."""
        seconds = np.zeros(4)
        self.search(
            queries=self.queries,
            probes=self.probes,
            rerank=self.rerank,
            out_ids=self.ids,
            out_scores=self.scores,
            out_seconds=seconds,
        )
        self._keep("batch", seconds / len(self.queries))

    def single(self, some: int) -> None:
        """Measure single queries."""
        seconds = np.zeros(4)
        for i in range(some):
            part = slice(i, i + 1)
            self.search(
                queries=self.queries[part],
                probes=self.probes,
                rerank=self.rerank,
                out_ids=self.ids[part],
                out_scores=self.scores[part],
                out_seconds=seconds,
            )
        self._keep("single", seconds / some)

    def _keep(self, mode: str, seconds: np.ndarray) -> None:
        if seconds.sum() < self.best[mode].sum():
            self.best[mode] = seconds

    def rows_in(self, mode: str, some: int) -> float:
        """Return the number of rows scanned per query."""
        return float((self.rows if mode == "batch" else self.rows[:some]).mean())


def measure(base: np.ndarray, queries: np.ndarray, top: np.ndarray, quantizer: Any) -> dict[str, Any]:
    """Return nanoseconds per row, bare and full, in both modes, and microseconds of every stage."""
    small = pcpq.build(base[:8192], metric="cosine", quantizer=quantizer(), n_lists=1)
    whole = pcpq.build(base, metric="cosine", quantizer=quantizer(), n_lists=1200)
    bare = Run(small, queries[:QUERIES], 1, 1, 1)
    full = Run(whole, queries[:QUERIES], 10, 50, 100)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    for _ in range(ROUNDS):
        for run, some in ((bare, 16), (full, 128)):
            run.batch()
            run.single(some)
    os.sched_setaffinity(0, cores)
    answer: dict[str, Any] = {
        "bytes_per_row": round(whole.stats()["bytes_per_vector"]["codes"], 1),
        "recall": round(shared_rows(full.ids, top[:QUERIES]), 4),
    }
    for mode in ("batch", "single"):
        nanoseconds = {
            name: 1e9 * run.best[mode][2] / run.rows_in(mode, some)
            for name, run, some in (("bare", bare, 16), ("full", full, 128))
        }
        answer[mode] = {
            "bare_ns_per_row": round(nanoseconds["bare"], 3),
            "full_ns_per_row": round(nanoseconds["full"], 3),
            "full_over_bare": round(nanoseconds["full"] / nanoseconds["bare"], 3),
            "rows_per_query": round(full.rows_in(mode, 128)),
            "microseconds": dict(zip(STAGES, (1e6 * full.best[mode]).round(2).tolist(), strict=True)),
        }
    return answer


def main() -> None:
    """Parse options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    options = parser.parse_args()
    data = load(data_folder(options.data), "glove")
    runs = {}
    for name, quantizer in QUANTIZERS.items():
        runs[name] = measure(data.base, data.queries, data.top, quantizer)
        print(name, runs[name], flush=True)
    save(RESULTS / "kernels.json", {"environment": environment(), "threads": 1, "rounds": ROUNDS, "runs": runs})


if __name__ == "__main__":
    main()
