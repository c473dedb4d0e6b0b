"""Choosing every contestant's kind, list count and setting for peers.py, on the queries that may be looked at.

For every number of candidates to re-rank, the smallest width that reaches the target is found by doubling and
bisection: a grid as fine as a grid can be, so that nobody pays for recall that was not asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from common import shared_rows
from peers_indexes import Contestant, Entry, K, Kind, Setting, label

Name = TypeVar("Name")

MODES = ("batch", "single")
SINGLE_QUERIES = 250  # enough to rank settings; the reported times use all
PATIENCE = 2.0  # a setting that takes this many times the best so far is not followed further
# Other work on the machine slows it down for seconds, and with it all that one index does in the meantime. So
# the fastest settings of every index are timed again, in turns: (rounds, how many stay for the next).
NEAR = 1.3  # times the fastest: what may still win
RIVALS_AN_INDEX = 4
DUELS = ((3, 16), (5, 6), (9, 1))
TRIES = 3  # a turn


@dataclass
class Candidate:
    """A built index with a setting, and what it did on the tuning queries."""

    index: Contestant
    build_seconds: float
    setting: Setting
    recall: float
    seconds: dict[str, float]  # a query, by mode

    def summary(self) -> dict[str, Any]:
        """For the result file."""
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
    """Seconds a query. The queries are prepared already."""
    if mode == "batch":
        start = time.perf_counter()
        index.search(queries)
    else:
        rows = list(queries)
        start = time.perf_counter()
        for row in rows:
            index.search_one(row)
    return (time.perf_counter() - start) / len(queries)


def race(runners: dict[Name, Candidate], queries: Queries, mode: str, rounds: int) -> dict[Name, list[float]]:
    """Seconds of every round; the contestants take turns, and the one that starts changes.

    A turn is the best of three: the first pays for what the others left in the caches, and any of them may meet
    a moment when the machine is busy.
    """
    prepared = {name: runner.index.prepare(queries.vectors) for name, runner in runners.items()}
    times: dict[Name, list[float]] = {name: [] for name in runners}
    names = list(runners)
    for turn in range(-1, rounds):  # one round to warm up
        first = turn % max(1, len(names))
        for name in names[first:] + names[:first]:
            runners[name].index.configure(runners[name].setting)
            tries = [timed(runners[name].index, prepared[name], mode) for _ in range(TRIES)]
            if turn >= 0:
                times[name].append(min(tries) * len(queries.vectors))
    return times


@dataclass
class Sweep:
    """One built index, every setting tried once."""

    index: Contestant
    build_seconds: float
    queries: Queries
    seen: dict[Setting, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prepared = self.index.prepare(self.queries.vectors)

    def measure(self, setting: Setting) -> tuple[float, float]:
        """Recall and batch seconds a query."""
        if setting not in self.seen:
            self.index.configure(setting)
            start = time.perf_counter()
            found = self.index.search(self.prepared)
            seconds = (time.perf_counter() - start) / len(self.prepared)
            self.seen[setting] = (shared_rows(np.asarray(found), self.queries.top), seconds)
        return self.seen[setting]

    def crossing(self, rerank: int | None, target: float, limit: float) -> Candidate | None:
        """The smallest width that reaches the target, unless it takes longer than the limit."""
        return self.smallest(lambda width: Setting(width, rerank), self.index.narrowest, target, limit)

    def smallest(
        self, setting_of: Callable[[int], Setting], start: int, target: float, limit: float
    ) -> Candidate | None:
        """The same where the width says how many to re-rank; looked for from `start` on."""
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
        """The same width with the fewest candidates that still reach the target, if they can be fewer."""
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
        """A setting that was measured, with its batch seconds, best of three."""
        recall, first = self.seen[setting]
        self.index.configure(setting)
        again = [timed(self.index, self.prepared, "batch") for _ in range(2)]
        return Candidate(self.index, self.build_seconds, setting, recall, {"batch": min(first, *again)})

    def clock_single(self, candidate: Candidate) -> None:
        """Seconds a query, one query a call."""
        self.index.configure(candidate.setting)
        some = self.prepared[:SINGLE_QUERIES]
        candidate.seconds["single"] = min(timed(self.index, some, "single") for _ in range(2))

    def best_recall(self) -> float:
        """The most that any setting gave."""
        return max(recall for recall, _ in self.seen.values())


class Tuner:
    """Tunes one contestant for all targets, in both modes."""

    def __init__(self, entry: Entry, vectors: np.ndarray, metric: str, queries: Queries) -> None:
        self.entry, self.vectors, self.metric, self.queries = entry, vectors, metric, queries
        self.sweeps: list[Sweep] = []
        self.found: dict[float, list[Candidate]] = {}
        self.depth: int | None = None  # how many of a contestant's numbers to re-rank are tried

    def choose(
        self, targets: list[float], list_counts: list[int], thorough: bool = True
    ) -> dict[tuple[str, float], Candidate]:
        """The best setting for every mode and target that can be reached; unless thorough, a rough guess."""
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
        """What runs of earlier results settled on, the last one if there are several, built and not tuned."""
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
        """A new index."""
        index = self.entry.make(kind, n_lists)
        start = time.perf_counter()
        index.build(self.vectors, self.metric)
        seconds = time.perf_counter() - start
        print(f"  built {self.entry.name} ({label(kind)}), lists {n_lists}: {seconds:.1f} s", flush=True)
        sweep = Sweep(index, seconds, self.queries)
        index.configure(Setting(index.narrowest, index.reranks[0]))
        index.search(sweep.prepared)  # the first search of an index pays for its memory
        self.sweeps.append(sweep)
        return sweep

    def explore(self, sweep: Sweep, reranks: Iterable[int | None] | None = None) -> None:
        """Find the crossings of one index, and time those one query at a time that may still win."""
        for target, found in self.found.items():
            new = []
            for rerank in reranks or sweep.index.reranks[: self.depth]:
                fastest = min((each.seconds["batch"] for each in found + new), default=np.inf)
                candidate = sweep.crossing(rerank, target, PATIENCE * fastest)
                if candidate is not None:
                    new.append(candidate)
            found += new
            fastest = min((each.seconds["batch"] for each in found), default=np.inf)
            for candidate in new:
                if candidate.seconds["batch"] < NEAR * fastest:
                    sweep.clock_single(candidate)

    def leading(self, mode: str, target: float) -> list[Candidate]:
        """Candidates, the fastest first."""
        timed_ones = [candidate for candidate in self.found[target] if mode in candidate.seconds]
        return sorted(timed_ones, key=lambda candidate: candidate.seconds[mode])

    def leading_of_each(self, mode: str, target: float, count: int) -> list[Candidate]:
        """The fastest of every index, so many of each, unless they are far behind."""
        everyone = self.leading(mode, target)
        by_index: dict[int, list[Candidate]] = {}
        for candidate in everyone:
            if candidate.seconds[mode] < NEAR * everyone[0].seconds[mode]:
                by_index.setdefault(id(candidate.index), []).append(candidate)
        return [candidate for mine in by_index.values() for candidate in mine[:count]]

    def leading_kinds(self) -> list[Kind]:
        """The two best kinds of every mode and target: the other list counts are tried with these only."""
        kinds: list[Kind] = []
        for target in self.found:
            for mode in MODES:
                best: list[Kind] = []
                for candidate in self.leading(mode, target):
                    if candidate.index.kind not in best:
                        best.append(candidate.index.kind)
                if not best:  # nobody got there with this list count: another may
                    best = [max(self.sweeps, key=Sweep.best_recall).index.kind]
                kinds += [kind for kind in best[:2] if kind not in kinds]
        return kinds

    def refine(self) -> None:
        """Try numbers of candidates to re-rank between those of the coarse sweep, on the leading indexes."""
        sweeps = {id(sweep.index): sweep for sweep in self.sweeps}
        wanted: dict[int, set[int]] = {}
        for target in self.found:
            for mode in MODES:
                for candidate in self.leading_of_each(mode, target, 1):
                    if (rerank := candidate.setting.rerank) is not None:
                        near = {round(rerank * share) for share in (0.6, 0.75, 1.2, 1.5)}
                        wanted.setdefault(id(candidate.index), set()).update(near)
        for key, reranks in wanted.items():
            self.explore(sweeps[key], sorted(rerank for rerank in reranks if rerank >= K))
        for target, found in self.found.items():
            leaders = [each for mode in MODES for each in self.leading_of_each(mode, target, 1)]
            for leader in leaders:
                sweep = sweeps[id(leader.index)]
                if (fewer := sweep.trimmed(leader.setting, target)) is not None:
                    sweep.clock_single(fewer)
                    found.append(fewer)

    def duel(self, mode: str, target: float) -> Candidate:
        """The fastest of every index once more, taking turns; the best medians stay, and the last one wins."""
        rivals = self.leading_of_each(mode, target, RIVALS_AN_INDEX)
        for rounds, stay in DUELS:
            times = race(dict(enumerate(rivals)), self.queries, mode, rounds)
            best = sorted(times, key=lambda number: np.median(times[number]))
            rivals = [rivals[number] for number in best[:stay]]
        return rivals[0]

    def best_recall(self) -> float:
        """The most that was reached, for targets that were not."""
        return max(sweep.best_recall() for sweep in self.sweeps)
