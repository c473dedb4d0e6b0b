"""Which code should be the default: four bits or six, in whole searches on every SIMD level; one thread.

    python benchmarks/default_code.py --data FOLDER
    python benchmarks/default_code.py --data FOLDER --sets minilm latent512 latent768 --name default_code_long

PQ of four bits with sections of 2, and of six bits with sections of 3 to 6, everything else as pcpq.build
chooses it. For each code, recall and mode, probes and rerank are chosen on one half of the queries with the
best SIMD level, and adjusted on the other half to just reach the recall. All are timed there on all levels
in alternation, by CPU time: answers are the same on all levels, so an index of the other kind costs what the
table shows. Results go to benchmarks/results/default_code.json.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import synthetic
from common import data_folder, default_metric, load, save, shared_rows, summary
from peers import settled
from peers_base import Contestant, Setting
from peers_indexes import Pcpq
from peers_tuning import MODES, Candidate, Queries, Sweep, race

import pcpq
from pcpq import _core
from pcpq.experiments.environment import environment
from pcpq.segment.training import wide_code

RESULTS = Path(__file__).parent / "results"
SETS = ("glove", "glove euclidean", "lastfm48k", "npm", "minilm", "text256")
FOUR_BITS = "PQ 2/16"  # that others are compared with
CODES = {
    FOUR_BITS: {"section_size": 2},
    "PQ 3/64": {"section_size": 3, "n_centers": 64},
    "PQ 4/64": {"section_size": 4, "n_centers": 64},
    "PQ 6/64": {"section_size": 6, "n_centers": 64},
}
LONG = 384  # dimensions from which on sections of 6 are measured
TARGETS = (0.90, 0.95, 0.98)
RERANKS = (25, 40, 60, 100, 160, 250)
ROUNDS, QUERIES = 5, 500


class AtLevel(Contestant):
    """An index that is searched on one SIMD level."""

    def __init__(self, index: Contestant, level: str) -> None:
        super().__init__(index.kind, index.n_lists)
        self.index, self.level = index, level

    def configure(self, setting: Setting) -> None:
        _core.set_simd_level(self.level)
        self.index.configure(setting)

    def search(self, queries: np.ndarray) -> np.ndarray:
        return self.index.search(queries)

    def search_one(self, query: np.ndarray) -> np.ndarray:
        return self.index.search_one(query)


def fastest(sweep: Sweep, mode: str, target: float) -> Candidate | None:
    """Return the fastest setting that reaches the target on the tuning queries, or None."""
    found = [sweep.crossing(rerank, target, np.inf) for rerank in RERANKS]
    reached = [candidate for candidate in found if candidate is not None]
    for candidate in reached if mode == "single" else ():
        sweep.clock_single(candidate)
    return min(reached, key=lambda candidate: candidate.seconds[mode], default=None)


def compare(sweeps: dict[str, Sweep], mode: str, target: float, reported: Queries) -> dict[str, Any] | None:
    """Return times and recall of the codes on all levels, and their speed; None if one misses the target."""
    chosen = {code: fastest(sweep, mode, target) for code, sweep in sweeps.items()}
    runners: dict[tuple[str, str], Candidate] = {}
    codes: dict[str, Any] = {}
    for code, candidate in chosen.items():
        if candidate is None:
            return None
        best = settled(candidate, reported, target)
        found = shared_rows(best.index.search(reported.vectors), reported.top)
        codes[code] = {"probes": best.setting.width, "rerank": best.setting.rerank, "recall": round(found, 4)}
        for level in _core.simd_levels():
            runners[code, level] = replace(best, index=AtLevel(best.index, level))
    times = race(runners, reported, mode, ROUNDS)
    _core.set_simd_level("auto")
    for level in _core.simd_levels():
        four = np.array(times[FOUR_BITS, level])
        for code in codes:
            seconds = np.array(times[code, level])
            codes[code][level] = {
                "microseconds": round(1e6 * float(np.median(seconds)) / len(reported.vectors), 2),
                "speed_over_four_bits": summary((four / seconds).tolist()),
            }
    return {"mode": mode, "target": target, "codes": codes}


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Return the results of one data set."""
    data_name, *other = name.split()
    metric = other[0] if other else default_metric(data_name)
    data = load(None if name in synthetic.SETS else folder, data_name, metric)
    d = data.base.shape[1]
    reported = Queries(data.queries[:QUERIES], data.top[:QUERIES])
    sweeps, built = {}, {}
    default = wide_code(d)
    for code, kind in CODES.items():
        if d < LONG and kind["section_size"] > 4:
            continue
        index = Pcpq({"quantizer": {"method": "PQ", **kind}}, None)
        index.build(data.base, metric)
        index.n_lists = index.index.stats()["lists"]
        sweeps[code] = Sweep(index, 0.0, Queries(data.tune, data.all_top[::2]))
        built[code] = {
            "default": repr(pcpq.PQ(**kind)) == repr(default),
            "bytes_per_vector": round(index.bytes_per_vector(), 1),
            "lists": index.n_lists,
            "lists_per_vector": index.index.lists_per_vector,
        }
    runs = [compare(sweeps, mode, target, reported) for mode in MODES for target in TARGETS]
    found = [run for run in runs if run is not None]
    for run in found:
        print(name, run, flush=True)
    return {"name": name, "n": len(data.base), "d": d, "indexes": built, "runs": found}


def main() -> None:
    """Parse options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=(*SETS, *synthetic.SETS))
    parser.add_argument("--name", default="default_code", help="name of the result")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    sets = [measure(name, data_folder(options.data)) for name in options.sets]
    result = {"environment": environment(), "threads": 1, "clock": "CPU time", "rounds": ROUNDS, "sets": sets}
    save(RESULTS / f"{options.name}.json", result)


if __name__ == "__main__":
    main()
