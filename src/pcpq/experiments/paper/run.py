"""`pcpq paper`: all experiments on one set of vectors, with one JSON file as the result."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pcpq.experiments.environment import environment
from pcpq.experiments.paper import extensions, operations
from pcpq.experiments.paper.experiment import Experiment, prepare
from pcpq.experiments.paper.extensions import Entry, Setting
from pcpq.experiments.paper.measures import Measured, measure
from pcpq.experiments.paper.protocols import RECALL_AT, probes_for, swept_probes
from pcpq.experiments.paper.published import METHODS, plateau, published
from pcpq.experiments.paper.sets import VectorSet
from pcpq.experiments.paper.single import single_clusters
from pcpq.experiments.paper.workers import Workers
from pcpq.quantizers.rotation import LEARNING_ROWS, fit_rotation
from pcpq.util.durable_files import write_whole
from pcpq.util.progress import Progress, progress_bar
from pcpq.util.threads import available_threads, one_blas_thread

ROWS_PER_LIST = 1000
SECTION_SIZE = 4
N_SCALES = 8
THRESHOLD = 0.2
PARTS = ("six", "equal-bits", "ablation", "operations", "joint")
# Target recall of the chosen probes if the paper has no value for a set.
USUAL_CEILING = 0.945
# Rough relative duration of an entry, for the progress bar.
COSTS = {"PQ": 1.0, "QPCPQ": 2.0, "PCPQ": 2.0, "APQ": 3.0, "QAPCPQ": 4.0, "APCPQ": 3.0}


@dataclass
class Run:
    """Experiments on one set of vectors."""

    vectors: VectorSet
    bits: int
    seed: int = 0
    threads: int | None = None
    parts: tuple[str, ...] = PARTS
    seconds: dict[str, float] = field(default_factory=dict)
    _found: dict[tuple[str, ...], Measured] = field(
        default_factory=dict
    )  # measurements by key, because tables share rows

    @property
    def setting(self) -> Setting:
        """Setting of the paper: sections of 4 coordinates, 16 or 256 codewords, 8 scales."""
        return Setting(max(1, self.vectors.base.shape[1] // SECTION_SIZE), 2**self.bits, N_SCALES)

    @one_blas_thread
    def go(self) -> dict[str, Any]:
        """Run the chosen parts and return the result."""
        n, d = self.vectors.base.shape
        n_lists = max(1, round(n / ROWS_PER_LIST))
        tables = self.tables(n / n_lists)
        threads = available_threads(self.threads)
        distinct = {entry.key: entry for table in tables.values() for entry in table}
        cost = sum(COSTS[name_of(entry)] for entry in distinct.values())
        with Workers(threads) as self.workers, progress_bar(cost) as bar:
            bar.say("initial clustering")
            experiment = self.timed(
                "lists",
                lambda: prepare(
                    self.vectors.base,
                    self.vectors.queries,
                    n_lists,
                    seed=self.seed,
                    threads=threads,
                ),
            )
            found = self.six(experiment, tables.pop("six"), bar)
            probes = found["settings"]["probes"]
            for part, entries in tables.items():
                rows = self.timed(part, lambda entries=entries: self.rows(experiment, entries, probes, bar))
                found[part.replace("-", "_")] = rows
            if "joint" in self.parts:
                bar.say("single clusters")
                found["single_clusters"] = single_clusters(
                    experiment, min(SECTION_SIZE, d), THRESHOLD, self.seed
                )
            if "operations" in self.parts:
                bar.say("operations")
                found["operations"] = list(
                    operations.table(self.setting, experiment.all_residuals(), self.vectors.queries)
                )
        return {**found, "seconds": self.seconds}

    def tables(self, rows_per_list: float) -> dict[str, list[Entry]]:
        """Return the entries of the chosen tables; the six methods are always included."""
        setting = self.setting
        tables = {
            "six": list(extensions.six_methods(setting)),
            "equal-bits": list(extensions.equal_bits(setting, rows_per_list)),
            "ablation": list(extensions.ablation(setting)),
            "joint": list(extensions.joint(setting)),
        }
        return {part: entries for part, entries in tables.items() if part == "six" or part in self.parts}

    def six(self, experiment: Experiment, entries: list[Entry], bar: Progress) -> dict[str, Any]:
        """Return tables and curves of the paper, with the number of probed lists that fits its recall best."""
        measured = self.timed("six methods", lambda: [self.one(experiment, entry, bar) for entry in entries])
        name, ranks = self.vectors.name, measured[0].ranks
        published_plateau = plateau(name)
        probes = probes_for(ranks, published_plateau or USUAL_CEILING)
        swept = swept_probes(experiment.n_lists)
        methods = []
        for entry, one in zip(entries, measured, strict=True):
            method = name_of(entry)
            methods.append(
                {
                    "method": method,
                    "paper_name": METHODS[method],
                    **one.numbers,
                    "recall": one.ranks.curves(probes),
                    "recall_at_10_by_probes": [round(one.ranks.recall("probed", 10, p), 4) for p in swept],
                    "errors": [round(float(error), 5) for error in np.sort(one.errors)],
                    "published": published(name, self.bits, method),
                }
            )
        n, d = self.vectors.base.shape
        return {
            "kind": "paper",
            "environment": environment(),
            "data": {
                "name": name,
                "source": self.vectors.source,
                "n": n,
                "d": d,
                "unit_norm": self.vectors.unit_norm,
                "queries": len(self.vectors.queries),
                "note": self.vectors.note,
            },
            "settings": {
                "bits": self.bits,
                "centers": self.setting.n_centers,
                "scales": self.setting.n_scales,
                "sections": self.setting.n_sections,
                "section_size": SECTION_SIZE,
                "lists": experiment.n_lists,
                "threshold": THRESHOLD,
                "seed": self.seed,
                "probes": probes,
                "threads": experiment.threads,
            },
            "recall_at": list(RECALL_AT),
            "methods": methods,
            "probes": {
                "swept": swept,
                "ceiling": [round(ranks.ceiling(p), 4) for p in swept],
                "chosen": probes,
                "published_plateau": published_plateau,
            },
        }

    def rows(
        self, experiment: Experiment, entries: Iterable[Entry], probes: int, bar: Progress
    ) -> list[dict[str, Any]]:
        """Measure entries and return the rows of their table."""
        rows = []
        for entry in entries:
            one = self.one(experiment, entry, bar)
            rows.append(
                {
                    **entry.about,
                    "codebooks": entry.codebooks,
                    **one.numbers,
                    "recall": one.ranks.curves(probes),
                }
            )
        return rows

    def one(self, experiment: Experiment, entry: Entry, bar: Progress) -> Measured:
        """Return the measurement of an entry, which is done once for all tables."""
        if entry.key not in self._found:
            self._found[entry.key] = self.measure(experiment, entry, bar)
        return self._found[entry.key]

    def measure(self, experiment: Experiment, entry: Entry, bar: Progress) -> Measured:
        """Rotate the vectors if the entry has a rotation, then train and measure."""
        name = name_of(entry)
        bar.say(", ".join(entry.about.values()))
        if entry.rotation is not None:
            generator = np.random.default_rng(self.seed)
            some = np.sort(generator.permutation(len(experiment.base))[:LEARNING_ROWS])
            learner = type(entry.quantizer)(**entry.quantizer.get_params() | {"gain": False, "bias": False})
            matrix = fit_rotation(entry.rotation, experiment.all_residuals()[some], learner, generator)
            assert matrix is not None
            experiment = experiment.rotated(matrix)
        quantizer = entry.quantizer.set_params(seed=self.seed)
        return measure(
            experiment,
            quantizer,
            entry.codebooks,
            self.workers,
            lambda share: bar.advance(COSTS[name] * share),
        )

    def timed(self, what: str, work: Any) -> Any:
        """Return the result of `work` and record its duration."""
        start = time.perf_counter()
        result = work()
        self.seconds[what] = round(time.perf_counter() - start, 1)
        return result


def name_of(entry: Entry) -> str:
    """Return the name of the method of an entry."""
    return type(entry.quantizer).__name__


def save(result: dict[str, Any], folder: Path) -> Path:
    """Write a result atomically to a JSON file named by set and bits; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"paper_{result['data']['name']}_{result['settings']['bits']}bit.json"
    write_whole(path, (json.dumps(result, indent=1) + "\n").encode())
    return path
