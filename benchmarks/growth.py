"""Measure how search time grows with the number of vectors, at equal recall; one thread, one core.

    python benchmarks/growth.py --data FOLDER
    python benchmarks/growth.py --data FOLDER --rows 30000 100000     a quick try

Real vectors are used as far as available. Each further vector is a random mixture of a real vector and its
thirty nearest neighbours, with weights that preserve their mean and covariance. Interpolations of two
vectors, or copies with noise, would concentrate along a few lines. The local dimension (Levina and Bickel's
estimate from 20 neighbours) shows whether the distribution is preserved. All sizes are tuned on one half of the
queries, then timed in alternation on the other half, at equal recall.
Results go to benchmarks/results/growth.json; with --rows the name contains the sizes.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import best_rows, data_folder, default_metric, load, save, shared_rows
from peers import settled
from peers_indexes import Pcpq
from peers_tuning import MODES, Candidate, Queries, Sweep, race

import pcpq
from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
ROWS = (30_000, 100_000, 300_000, 1_000_000, 3_000_000)
NEIGHBOURS = 30
TARGET = 0.95
RERANKS = (60, 80, 100, 140, 200, 280, 400)
ROUNDS = 7


def grown(base: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """Return n unit vectors: a sample of the base, or all of it and mixtures of neighbours."""
    if n <= len(base):
        return base[np.sort(generator.permutation(len(base))[:n])]
    index = pcpq.build(base, metric="cosine")
    near = index.search(base, k=NEIGHBOURS + 1, probes=60, rerank=100).ids[:, 1:]
    out = np.empty((n, base.shape[1]), np.float32)
    out[: len(base)] = base
    some = NEIGHBOURS + 1
    for start in range(len(base), n, 20_000):
        count = min(20_000, n - start)
        around = generator.integers(len(base), size=count)
        rows = np.column_stack([around, near[around]])
        shares = generator.normal(size=(count, some)).astype(np.float32)
        shares = (shares - shares.mean(axis=1, keepdims=True)) / some**0.5 + 1 / some
        out[start : start + count] = np.einsum("ij,ijk->ik", shares, base[rows])
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    return out


def true_neighbours(base: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (n_queries, k) rows and their scores, best first."""
    rows = np.empty((len(queries), k), np.int64)
    scores = np.empty((len(queries), k), np.float32)
    for i in range(0, len(queries), 50):
        products = queries[i : i + 50] @ base.T
        best = best_rows(products, k)
        values = np.take_along_axis(products, best, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        rows[i : i + 50] = np.take_along_axis(best, order, axis=1)
        scores[i : i + 50] = np.take_along_axis(values, order, axis=1)
    return rows, scores


def local_dimension(base: np.ndarray, generator: np.random.Generator) -> float:
    """Return the mean over some rows of Levina and Bickel's estimate from 20 neighbours."""
    some = generator.permutation(len(base))[:500]
    _, products = true_neighbours(base, base[some], 21)
    distances = np.sqrt(np.maximum(2.0 - 2.0 * products[:, 1:], 1e-9))
    inverse = np.log(distances[:, -1:] / distances[:, :-1]).mean(axis=1)
    return float(1.0 / inverse.mean())


@dataclass
class Grown:
    """An index of some size and its chosen settings."""

    row: dict[str, Any]
    chosen: dict[str, Candidate]
    reported: Queries

    def settle(self) -> None:
        """Adjust the settings so that they reach the target on the reported queries as well."""
        for mode, candidate in self.chosen.items():
            self.chosen[mode] = settled(candidate, self.reported, TARGET)

    def report(self, mode: str, seconds: list[float]) -> dict[str, Any]:
        """Return time and recall on the reported queries, which were not used for tuning."""
        index, setting, queries = self.chosen[mode].index, self.chosen[mode].setting, self.reported.vectors
        index.configure(setting)
        explained = index.index.explain(queries[0], probes=setting.width, rerank=setting.rerank)
        return {
            "probes": setting.width,
            "rerank": setting.rerank,
            "recall": round(shared_rows(index.search(queries), self.reported.top), 4),
            "microseconds": round(1e6 * float(np.median(seconds)) / len(queries), 2),
            "best_microseconds": round(1e6 * min(seconds) / len(queries), 2),
            "rows_scanned": explained["rows_scanned"],
        }


def tuned(base: np.ndarray, queries: np.ndarray, dimension: float) -> Grown:
    """Build an index and tune it on even queries."""
    index = Pcpq({}, None)
    start = time.perf_counter()
    index.build(base, "cosine")
    build_seconds = time.perf_counter() - start
    top, _ = true_neighbours(base, queries, 10)
    sweep = Sweep(index, build_seconds, Queries(np.ascontiguousarray(queries[::2]), top[::2]))
    with one_core():
        found = [sweep.crossing(rerank, TARGET, np.inf) for rerank in RERANKS]
        candidates = [candidate for candidate in found if candidate is not None]
        for candidate in candidates:
            sweep.clock_single(candidate)
    chosen = {mode: min(candidates, key=lambda c, mode=mode: c.seconds[mode]) for mode in MODES}
    stats = index.index.stats()
    row = {
        "local_dimension": round(dimension, 1),
        "n": len(base),
        "lists": stats["lists"],
        "bytes_per_vector": round(index.bytes_per_vector(), 1),
        "imbalance": round(stats["imbalance"], 3),
        "build_seconds": round(build_seconds, 1),
    }
    return Grown(row, chosen, Queries(np.ascontiguousarray(queries[1::2]), top[1::2]))


@contextmanager
def one_core() -> Iterator[None]:
    """Pin the process to its last core during the block."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    yield
    os.sched_setaffinity(0, cores)


def main() -> None:
    """Parse options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--rows", nargs="+", type=int, help=f"numbers of vectors (default: {ROWS})")
    parser.add_argument("--name", help="name of the result, for another version of pcpq")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    data = load(data_folder(options.data), "glove", default_metric("glove"))
    indexes = []
    for n in options.rows or ROWS:
        base = grown(data.base, n, generator)
        indexes.append(tuned(base, data.all_queries, local_dimension(base, generator)))
        print(indexes[-1].row, flush=True)
    runs = [dict(index.row) for index in indexes]
    with one_core():
        for index in indexes:
            index.settle()
        for mode in MODES:  # alternating, so that other load affects all sizes equally
            runners = {index.row["n"]: index.chosen[mode] for index in indexes}
            times = race(runners, indexes[0].reported, mode, ROUNDS)
            for run, index in zip(runs, indexes, strict=True):
                run[mode] = index.report(mode, times[run["n"]])
    growth = {}
    for mode in MODES:
        sizes = np.log([run["n"] for run in runs])
        times = np.log([run[mode]["microseconds"] for run in runs])
        growth[mode] = {
            "exponent": round(float(np.polyfit(sizes, times, 1)[0]), 3) if len(runs) > 1 else None,
            "exponents_between": [round(float(x), 3) for x in np.diff(times) / np.diff(sizes)],
        }
    print(growth)
    name = options.name or ("growth_" + "_".join(map(str, options.rows)) if options.rows else "growth")
    result = {"environment": environment(), "target": TARGET, "rounds": ROUNDS, "runs": runs, "growth": growth}
    save(RESULTS / f"{name}.json", result)


if __name__ == "__main__":
    main()
