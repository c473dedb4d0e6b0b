"""Choose kind, number of lists and setting of each contestant of peers.py, on the tuning queries.

For each rerank, the smallest width that reaches the target is found by doubling and bisection. This is the
finest possible grid, so that no contestant spends time on recall above the target.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from common import shared_rows
from peers_base import Contestant, K, Kind, Setting
from peers_indexes import Entry, label

Name = TypeVar("Name")

MODES = ("batch", "single")
SINGLE_QUERIES = 250  # enough to rank settings; the reported times use all
PATIENCE = 2.0  # stop when a setting takes this many times the best so far
NEAR = 1.3  # candidates that take at most this many times the fastest can still win
RIVALS_AN_INDEX = 4
# Other load can slow down all measurements of one index for seconds. Therefore the fastest settings of all
# indexes are timed again, alternating: (rounds, number of settings that remain).
DUELS = ((3, 16), (5, 6), (9, 1))
TRIES = 3  # per turn


@dataclass
class Candidate:
    """A built index with a setting, and its results on the tuning queries."""

    index: Contestant
    build_seconds: float
    setting: Setting
    recall: float
    seconds: dict[str, float]  # per query, by mode

    def summary(self) -> dict[str, Any]:
        """Return the entries of the result file."""
        return {
            "kind": self.index.kind,
            "lists": self.index.n_lists,
            "width": self.setting.width,
            "rerank": self.setting.rerank,
            "tuning_recall": round(self.recall, 4),
            "build_seconds": round(self.build_seconds, 2),
        }


@dataclass
class Queries:
    """Queries and their true neighbours."""

    vectors: np.ndarray
    top: np.ndarray


def timed(index: Contestant, queries: np.ndarray, mode: str) -> float:
    """Return the seconds of CPU time per query, for prepared queries; other programs do not count."""
    if mode == "batch":
        start = time.process_time()
        index.search(queries)
    else:
        rows = list(queries)
        start = time.process_time()
        for row in rows:
            index.search_one(row)
    return (time.process_time() - start) / len(queries)


def race(runners: dict[Name, Candidate], queries: Queries, mode: str, rounds: int) -> dict[Name, list[float]]:
    """Return the seconds of every round; the contestants alternate, and each round starts with another one.

    A turn is the best of three, because the first fills the caches and any can be slowed down by other load.
    """
    prepared = {name: runner.index.prepare(queries.vectors) for name, runner in runners.items()}
    times: dict[Name, list[float]] = {name: [] for name in runners}
    names = list(runners)
    for turn in range(-1, rounds):  # round -1 is a warm-up
        first = turn % max(1, len(names))
        for name in names[first:] + names[:first]:
            runners[name].index.configure(runners[name].setting)
            tries = [timed(runners[name].index, prepared[name], mode) for _ in range(TRIES)]
            if turn >= 0:
                times[name].append(min(tries) * len(queries.vectors))
    return times


@dataclass
class Sweep:
    """One built index, with every setting measured at most once."""

    index: Contestant
    build_seconds: float
    queries: Queries
    seen: dict[Setting, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prepared = self.index.prepare(self.queries.vectors)

    def measure(self, setting: Setting) -> tuple[float, float]:
        """Return recall and batched seconds per query."""
        if setting not in self.seen:
            self.index.configure(setting)
            start = time.process_time()
            found = self.index.search(self.prepared)
            seconds = (time.process_time() - start) / len(self.prepared)
            self.seen[setting] = (shared_rows(np.asarray(found), self.queries.top), seconds)
        return self.seen[setting]

    def crossing(self, rerank: int | None, target: float, limit: float) -> Candidate | None:
        """Return the smallest width that reaches the target, or None if it takes longer than the limit."""
        return self.smallest(lambda width: Setting(width, rerank), self.index.narrowest, target, limit)

    def smallest(
        self, setting_of: Callable[[int], Setting], start: int, target: float, limit: float
    ) -> Candidate | None:
        """Return the smallest width, from `start` on, that reaches the target within the limit, or None."""
        low, high = self.index.narrowest - 1, start
        while self.measure(setting_of(high))[0] < target:
            if high >= self.index.widest or self.seen[setting_of(high)][1] > limit:
                return None
            low, high = high, min(2 * high, self.index.widest)
        while high - low > 1:
            middle = (low + high) // 2
            if self.measure(setting_of(middle))[0] < target:
                low = middle
            else:
                high = middle
        return self.candidate(setting_of(high))

    def trimmed(self, setting: Setting, target: float) -> Candidate | None:
        """Return the same width with the smallest rerank that reaches the target, or None if none is less."""
        if setting.rerank is None:
            return None
        low, high = K - 1, setting.rerank
        while high - low > 1:
            middle = (low + high) // 2
            if self.measure(Setting(setting.width, middle))[0] < target:
                low = middle
            else:
                high = middle
        return self.candidate(Setting(setting.width, high)) if high < setting.rerank else None

    def candidate(self, setting: Setting) -> Candidate:
        """Return a measured setting with its batched seconds, best of three."""
        recall, first = self.seen[setting]
        self.index.configure(setting)
        again = [timed(self.index, self.prepared, "batch") for _ in range(2)]
        return Candidate(self.index, self.build_seconds, setting, recall, {"batch": min(first, *again)})

    def clock_single(self, candidate: Candidate) -> None:
        """Measure the seconds per query of single queries."""
        self.index.configure(candidate.setting)
        some = self.prepared[:SINGLE_QUERIES]
        candidate.seconds["single"] = min(timed(self.index, some, "single") for _ in range(2))

    def best_recall(self) -> float:
        """Return the best recall of all settings."""
        return max(recall for recall, _ in self.seen.values())


class Tuner:
    """Tunes one contestant for all targets, in both modes."""

    def __init__(self, entry: Entry, vectors: np.ndarray, metric: str, queries: Queries) -> None:
        self.entry, self.vectors, self.metric, self.queries = entry, vectors, metric, queries
        self.sweeps: list[Sweep] = []
        self.found: dict[float, list[Candidate]] = {}
        self.depth: int | None = None  # number of values of rerank to try; None: all
        self.slowest = np.inf  # seconds per query; slower settings are left out

    def choose(
        self, targets: list[float], list_counts: list[int], thorough: bool = True
    ) -> dict[tuple[str, float], Candidate]:
        """Return the fastest setting for each mode and target that is reached; a rough one unless thorough."""
        self.depth = None if thorough else 2
        self.found = {target: [] for target in targets}
        middle = list_counts[len(list_counts) // 2]
        for kind in self.entry.kinds:
            self.explore(self.built(kind, middle if self.entry.make.has_lists else None))
        if self.entry.make.has_lists:
            kinds = self.leading_kinds()
            for n_lists in list_counts:
                for kind in kinds if n_lists != middle else ():
                    self.explore(self.built(kind, n_lists))
        if thorough:
            self.refine()
        return {
            (mode, target): self.duel(mode, target)
            for mode in MODES
            for target in targets
            if self.found[target]
        }

    def chosen_before(self, runs: list[dict[str, Any]]) -> dict[tuple[str, float], Candidate]:
        """Return the settings chosen by earlier runs (the last, if several), built again but not tuned."""
        mine = [run for run in runs if self.entry.name in run["contestants"]]
        rows = {(run["mode"], run["target"]): run["contestants"][self.entry.name] for run in mine}
        chosen, sweeps = {}, {}
        for aim, row in rows.items():
            key = (label(row["kind"]), row["lists"])
            if key not in sweeps:
                sweeps[key] = self.built(row["kind"], row["lists"])
            setting = Setting(**row["tuned"])
            sweeps[key].measure(setting)
            chosen[aim] = sweeps[key].candidate(setting)
        return chosen

    def built(self, kind: Kind, n_lists: int | None) -> Sweep:
        """Build a new index."""
        index = self.entry.make(kind, n_lists)
        start = time.perf_counter()
        index.build(self.vectors, self.metric)
        seconds = time.perf_counter() - start
        print(f"  built {self.entry.name} ({label(kind)}), lists {n_lists}: {seconds:.1f} s", flush=True)
        sweep = Sweep(index, seconds, self.queries)
        index.configure(Setting(index.narrowest, index.reranks[0]))
        index.search(sweep.prepared)  # the first search is slower, because memory is allocated
        self.sweeps.append(sweep)
        return sweep

    def explore(self, sweep: Sweep, reranks: Iterable[int | None] | None = None) -> None:
        """Find the crossings of one index, and time single queries of those that can still win."""
        for target, found in self.found.items():
            new = []
            for rerank in reranks or sweep.index.reranks[: self.depth]:
                fastest = min((each.seconds["batch"] for each in found + new), default=np.inf)
                candidate = sweep.crossing(rerank, target, min(PATIENCE * fastest, self.slowest))
                if candidate is not None and candidate.seconds["batch"] <= self.slowest:
                    new.append(candidate)
            found += new
            fastest = min((each.seconds["batch"] for each in found), default=np.inf)
            for candidate in new:
                if candidate.seconds["batch"] < NEAR * fastest:
                    sweep.clock_single(candidate)

    def leading(self, mode: str, target: float) -> list[Candidate]:
        """Return the candidates, fastest first."""
        timed_ones = [candidate for candidate in self.found[target] if mode in candidate.seconds]
        return sorted(timed_ones, key=lambda candidate: candidate.seconds[mode])

    def leading_of_each(self, mode: str, target: float, count: int) -> list[Candidate]:
        """Return the fastest candidates of every index, at most `count` of each, without slow ones."""
        ranked = self.leading(mode, target)
        by_index: dict[int, list[Candidate]] = {}
        for candidate in ranked:
            if candidate.seconds[mode] < NEAR * ranked[0].seconds[mode]:
                by_index.setdefault(id(candidate.index), []).append(candidate)
        return [candidate for mine in by_index.values() for candidate in mine[:count]]

    def leading_kinds(self) -> list[Kind]:
        """Return the two best kinds of each mode and target, with which other numbers of lists are tried."""
        kinds: list[Kind] = []
        for target in self.found:
            for mode in MODES:
                best: list[Kind] = []
                for candidate in self.leading(mode, target):
                    if candidate.index.kind not in best:
                        best.append(candidate.index.kind)
                if not best:  # no kind reaches the target with this number of lists
                    best = [max(self.sweeps, key=Sweep.best_recall).index.kind]
                kinds += [kind for kind in best[:2] if kind not in kinds]
        return kinds

    def refine(self, best_only: bool = False) -> None:
        """Try values of rerank between those of the coarse sweep, on the leading indexes or on the best one."""
        sweeps = {id(sweep.index): sweep for sweep in self.sweeps}
        wanted: dict[int, set[int]] = {}
        for target in self.found:
            for mode in MODES:
                for candidate in self.leading_of_each(mode, target, 1)[: 1 if best_only else None]:
                    if (rerank := candidate.setting.rerank) is not None:
                        near = {round(rerank * share) for share in (0.6, 0.75, 1.2, 1.5)}
                        wanted.setdefault(id(candidate.index), set()).update(near)
        for key, reranks in wanted.items():
            self.explore(sweeps[key], sorted(rerank for rerank in reranks if rerank >= K))
        for target, found in self.found.items():
            ranked = [self.leading_of_each(mode, target, 1) for mode in MODES]
            leaders = [each for some in ranked for each in some[: 1 if best_only else None]]
            for leader in leaders:
                sweep = sweeps[id(leader.index)]
                if (fewer := sweep.trimmed(leader.setting, target)) is not None:
                    sweep.clock_single(fewer)
                    found.append(fewer)

    def duel(self, mode: str, target: float, duels: Iterable[tuple[int, int]] = DUELS) -> Candidate:
        """Return the winner of repeated alternating measurements of the fastest candidates of every index."""
        rivals = self.leading_of_each(mode, target, RIVALS_AN_INDEX)
        for rounds, stay in duels:
            times = race(dict(enumerate(rivals)), self.queries, mode, rounds)
            best = sorted(times, key=lambda number: np.median(times[number]))
            rivals = [rivals[number] for number in best[:stay]]
        return rivals[0]

    def best_recall(self) -> float:
        """Return the best recall of all indexes, for targets that were not reached."""
        return max(sweep.best_recall() for sweep in self.sweeps)
