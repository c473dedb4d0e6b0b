"""What a part of the search saves: an index as pcpq.build makes it beside one without that part; one thread.

    python benchmarks/ablation.py probing --data FOLDER              lists probed by weight, or the same number
    python benchmarks/ablation.py code_dimensions                    codes of fewer coordinates, or of all
    python benchmarks/ablation.py probing --data FOLDER --sets glove

For each recall and mode, probes and rerank are chosen on one half of the queries and adjusted on the other half
to just reach the recall, where both are timed in alternation. Results go to
benchmarks/results/ablation_PART.json.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import synthetic
from common import data_folder, default_metric, load, save, shared_rows, summary
from default_code import SETS, TARGETS, fastest
from peers import settled
from peers_indexes import Pcpq
from peers_tuning import MODES, Queries, Sweep, race

from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
ROUNDS = 7
WITH, WITHOUT = "with", "without"


class SameNumber(Pcpq):
    """An index whose queries all probe the same number of lists."""

    def build(self, vectors: np.ndarray, metric: str) -> None:
        super().build(vectors, metric)
        state = self.index._state
        state.set_recall_curve(replace(state.snapshot.recall, margins=None), state.snapshot.trained)


class AllCoordinates(Pcpq):
    """An index whose codes have all coordinates of the vectors."""

    def build(self, vectors: np.ndarray, metric: str) -> None:
        self.kind = {**self.kind, "code_dimensions": vectors.shape[1]}
        super().build(vectors, metric)


@dataclass(frozen=True)
class Part:
    """A part of the search: how to do without it, and the sets where it matters."""

    without: type[Pcpq]
    sets: tuple[str, ...]


PARTS = {
    "probing": Part(SameNumber, (*SETS, "latent512")),
    "code_dimensions": Part(AllCoordinates, ("latent512", "latent768")),
}


def rows_scanned(index: Pcpq, queries: np.ndarray) -> float:
    """Return the rows that a query scans, on average."""
    options = {name: value for name, value in index.options.items() if name != "threads"}
    return float(np.mean([index.index.explain(query, **options)["rows_scanned"] for query in queries]))


def compare(sweeps: dict[str, Sweep], mode: str, target: float, reported: Queries) -> dict[str, Any] | None:
    """Return times, rows and recall of both, and their ratio of speed; None if one misses the target."""
    chosen = {name: fastest(sweep, mode, target) for name, sweep in sweeps.items()}
    if any(candidate is None for candidate in chosen.values()):
        return None
    best = {name: settled(candidate, reported, target) for name, candidate in chosen.items() if candidate}
    times = race(best, reported, mode, ROUNDS)
    found: dict[str, Any] = {"mode": mode, "target": target}
    for name, candidate in best.items():
        candidate.index.configure(candidate.setting)
        ids = candidate.index.search(reported.vectors)
        found[name] = {
            "probes": candidate.setting.width,
            "rerank": candidate.setting.rerank,
            "recall": round(shared_rows(ids, reported.top), 4),
            "rows": round(rows_scanned(candidate.index, reported.vectors)),
            "bytes_per_vector": round(candidate.index.bytes_per_vector(), 1),
            "microseconds": round(1e6 * float(np.median(times[name])) / len(reported.vectors), 2),
        }
    found["speed"] = summary((np.array(times[WITHOUT]) / np.array(times[WITH])).tolist())
    return found


def measure(part: Part, name: str, folder: str | None) -> dict[str, Any]:
    """Return the results of one data set."""
    data_name, *other = name.split()
    metric = other[0] if other else default_metric(data_name)
    data = load(None if name in synthetic.SETS else data_folder(folder), data_name, metric)
    reported, sweeps = Queries(data.queries, data.top), {}
    for kind, make in ((WITH, Pcpq), (WITHOUT, part.without)):
        index = make({}, None)
        index.build(data.base, metric)
        index.n_lists = index.index.stats()["lists"]
        sweeps[kind] = Sweep(index, 0.0, Queries(data.tune, data.all_top[::2]))
    runs = [compare(sweeps, mode, target, reported) for mode in MODES for target in TARGETS]
    found = [run for run in runs if run is not None]
    for run in found:
        print(name, run, flush=True)
    stats = sweeps[WITH].index.index.stats()
    chosen = {key: stats[key] for key in ("lists", "code_dimensions")}
    return {"name": name, "n": len(data.base), "d": data.base.shape[1], **chosen, "runs": found}


def main() -> None:
    """Parse options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--sets", nargs="+", choices=(*SETS, *synthetic.SETS))
    options = parser.parse_args()
    part = PARTS[options.part]
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    sets = [measure(part, name, options.data) for name in options.sets or part.sets]
    result = {"environment": environment(), "threads": 1, "clock": "CPU time", "rounds": ROUNDS, "sets": sets}
    save(RESULTS / f"ablation_{options.part}.json", result)


if __name__ == "__main__":
    main()
