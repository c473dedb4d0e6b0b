"""Compare options of pcpq.build, to choose its defaults: recall, time and bytes on four data sets.

    python benchmarks/defaults.py --data FOLDER
    python benchmarks/defaults.py --data FOLDER --sets lastfm48k     some of the sets

Starting from the current defaults, one option at a time is changed: lists, code, loss, kept precision. For each
choice, the fastest probes and rerank that reach the target are found on one half of the queries; the choices
are then timed in alternation on the other half. Without kept vectors the target is not reached, so those
choices are compared by their recall at a tenth of the lists. Results go to
benchmarks/results/defaults_NAME.json.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from common import Data, data_folder, default_metric, load, save, shared_rows
from peers_base import Kind, Setting
from peers_indexes import Pcpq, label
from peers_tuning import Candidate, Queries, Sweep, race

from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
TARGET = 0.95
ROUNDS = 7
LIST_FACTORS = (1.0, 1.5, 2.0, 3.0, 4.0)  # times the square root of the number of rows
DEFAULT_FACTOR = 2.0


def code(method: str, size: int, scales: int | None = None, codewords: int = 16) -> Kind:
    """Return a quantizer as JSON."""
    found: Kind = {"method": method, "section_size": size}
    if codewords != 16:
        found["n_centers"] = codewords
    return found if scales is None else {**found, "n_scales": scales}


CODES = (
    code("PQ", 2),
    code("PQ", 3),
    code("PQ", 2, codewords=8),
    code("PQ", 4, codewords=256),
    code("APQ", 2),
    code("QPCPQ", 4, 8),
    code("QPCPQ", 3, 8),
    code("QPCPQ", 2, 8),
    code("QAPCPQ", 4, 8),
)
KEEPS = ("int8", "float16", "float32")
CODES_ALONE = (
    code("PQ", 2),
    code("QPCPQ", 3, 8),
    code("QPCPQ", 2, 8),
    code("QPCPQ", 2, 16),
    code("QAPCPQ", 2, 16),
)


def choices() -> list[tuple[float, Kind]]:
    """Return the choices as factor of the number of lists, and options; the defaults come first."""
    found: list[tuple[float, Kind]] = [(DEFAULT_FACTOR, {})]
    found += [(factor, {}) for factor in LIST_FACTORS if factor != DEFAULT_FACTOR]
    found += [(DEFAULT_FACTOR, {"quantizer": each}) for each in CODES]
    found += [(DEFAULT_FACTOR, {"keep": keep}) for keep in KEEPS]
    return found


def built(data: Data, metric: str, factor: float, kind: Kind) -> Sweep:
    """Return the index of a choice, ready for a sweep of settings."""
    index = Pcpq(kind, max(1, round(factor * len(data.base) ** 0.5)))
    index.build(data.base, metric)
    sweep = Sweep(index, 0.0, Queries(data.tune, data.all_top[::2]))
    index.configure(Setting(1, index.reranks[0]))
    index.search(sweep.prepared)
    return sweep


def fastest(sweep: Sweep) -> Candidate | None:
    """Return the fastest setting that reaches the target, or None."""
    found = [sweep.crossing(rerank, TARGET, np.inf) for rerank in (50, 75, 100, 150, 250)]
    reached = [candidate for candidate in found if candidate is not None]
    return min(reached, key=lambda candidate: candidate.seconds["batch"], default=None)


def compare(data: Data, metric: str) -> dict[str, Any]:
    """Return the results of all choices on one data set."""
    reported = Queries(data.queries, data.top)
    runners: dict[str, Candidate] = {}
    rows: dict[str, Any] = {}
    for factor, kind in choices():
        name = label({"lists": factor, **kind})
        best = fastest(built(data, metric, factor, kind))
        if best is None:
            rows[name] = {"reached": False}
            continue
        runners[name] = best
        print(f"  {name}: {best.summary()}", flush=True)
    times = race(runners, reported, "batch", ROUNDS)
    base = float(np.median(next(iter(times.values()))))
    for name, runner in runners.items():
        runner.index.configure(runner.setting)
        median = float(np.median(times[name]))
        rows[name] = {
            "reached": True,
            "probes": runner.setting.width,
            "rerank": runner.setting.rerank,
            "lists": runner.index.n_lists,
            "recall": round(shared_rows(runner.index.search(reported.vectors), reported.top), 4),
            "microseconds": round(1e6 * median / len(reported.vectors), 2),
            "time_over_default": round(median / base, 3),
            "bytes_per_vector": round(runner.index.bytes_per_vector(), 1),
        }
        print(f"  {name}: {rows[name]}", flush=True)
    return {"choices": rows, "codes_alone": codes_alone(data, metric, reported)}


def codes_alone(data: Data, metric: str, reported: Queries) -> dict[str, Any]:
    """Return recall at a tenth of the lists, time and bytes, without kept vectors."""
    runners = {}
    for each in CODES_ALONE:
        sweep = built(data, metric, DEFAULT_FACTOR, {"quantizer": each, "keep": None})
        setting = Setting(max(1, sweep.index.n_lists // 10), None)
        sweep.measure(setting)
        runners[label(each)] = sweep.candidate(setting)
    times = race(runners, reported, "batch", ROUNDS)
    rows = {}
    for name, runner in runners.items():
        runner.index.configure(runner.setting)
        rows[name] = {
            "recall": round(shared_rows(runner.index.search(reported.vectors), reported.top), 4),
            "microseconds": round(1e6 * float(np.median(times[name])) / len(reported.vectors), 2),
            "bytes_per_vector": round(runner.index.bytes_per_vector(), 1),
        }
        print(f"  codes alone, {name}: {rows[name]}", flush=True)
    return rows


def main() -> None:
    """Parse options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--sets", nargs="+", default=["glove", "minilm", "npm", "lastfm48k"])
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in options.sets:
        metric = default_metric(name)
        data = load(data_folder(options.data), name, metric)
        print(f"{name}: {data.base.shape}, {metric}", flush=True)
        result = {
            "environment": environment(),
            "data": {"name": name, "metric": metric, "n": len(data.base), "d": data.base.shape[1]},
            "threads": 1,
            "target": TARGET,
            "rounds": ROUNDS,
            **compare(data, metric),
        }
        save(RESULTS / f"defaults_{name}.json", result)


if __name__ == "__main__":
    main()
