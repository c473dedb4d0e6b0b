"""Full curves of recall and speed for peers.py --curve, from recall 0.5 up to what each contestant reaches.

The kinds and numbers of lists are those that the tuning for a few targets has chosen. On the tuning queries,
the fastest setting is found for each of 14 recalls; on the reported queries, recall and speed of these settings
are measured. Settings are not adjusted to the reported queries: a point of a curve may have any recall.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from common import shared_rows, summary
from peers_base import Contestant, K, Setting
from peers_tuning import MODES, Candidate, Queries, Sweep, Tuner, race

POINTS = 14  # per curve
LOWEST, HIGHEST = 0.5, 0.998  # recall of the first and the last point, where a contestant has them
SLOWEST = 0.001  # seconds per query; slower settings would take most of the time of the benchmark
TIMED_ALONE = 300  # single queries that are timed
MOST_QUERIES = 400  # to find settings: points may have any recall
MOST_INDEXES = 3  # per curve: those that are best at most targets
# Many settings are compared, and a curve needs fewer rounds for each than a single comparison.
DUELS = ((2, 4), (3, 1))

Curves = dict[str, dict[str, list[Candidate]]]  # by mode and contestant


def trace(tuner: Tuner, chosen: Mapping[Hashable, Candidate]) -> dict[str, list[Candidate]]:
    """Return the settings of the curve of one contestant by mode, with rising recall on the tuning queries."""
    wins = Counter(id(candidate.index) for candidate in chosen.values())
    indexes = {index for index, _ in wins.most_common(MOST_INDEXES)}
    # A contestant that misses all targets still has a curve: that of its index with the best recall.
    sweeps = [sweep for sweep in tuner.sweeps if id(sweep.index) in indexes] or [
        max(tuner.sweeps, key=Sweep.best_recall)
    ]
    few = Queries(tuner.queries.vectors[:MOST_QUERIES], tuner.queries.top[:MOST_QUERIES])
    sweeps = [Sweep(sweep.index, sweep.build_seconds, few) for sweep in sweeps]
    tuner.queries, tuner.sweeps = few, sweeps
    aims = spaced(sweeps)
    tuner.found = found = {aim: [] for aim in aims}
    tuner.slowest = SLOWEST
    for sweep in sweeps:
        tuner.explore(sweep)
    if tuner.depth is None:
        for aim in aims:  # one by one: the values of rerank near that of one recall are of no use to others
            tuner.found = {aim: found[aim]}
            tuner.refine(best_only=True)
        tuner.found = found
    curves: dict[str, list[Candidate]] = {}
    for mode in MODES:
        winners = [tuner.duel(mode, aim, DUELS) for aim in aims if tuner.leading(mode, aim)]
        # Neighbouring recalls can have the same setting where widths are small.
        distinct = {(id(each.index), each.setting): each for each in winners}
        curves[mode] = sorted(distinct.values(), key=lambda each: each.recall)
    return curves


def spaced(sweeps: list[Sweep]) -> list[float]:
    """Return the recalls to find settings for: from the lowest to the highest, denser towards 1."""
    narrow = [
        sweep.measure(Setting(sweep.index.narrowest, rerank))[0]
        for sweep in sweeps
        for rerank in sweep.index.reranks
    ]
    low = min(max(LOWEST, min(narrow)), HIGHEST)
    high = max(low, min(HIGHEST, max(most(sweep) for sweep in sweeps)))
    # Equal steps of the logarithm of the share that is missed, as the axis of the chart has them.
    return [float(1 - missed) for missed in np.geomspace(1 - low, 1 - high, POINTS)]


def most(sweep: Sweep) -> float:
    """Return the best recall of an index among settings that are not too slow."""
    width, rerank = sweep.index.narrowest, max(sweep.index.reranks, key=lambda each: each or 0)
    best = 0.0
    while True:
        recall, seconds = sweep.measure(Setting(width, rerank))
        best = max(best, recall)
        if width >= sweep.index.widest or recall >= HIGHEST or seconds > SLOWEST:
            return best
        width = min(2 * width, sweep.index.widest)


def report_curves(curves: Curves, queries: Queries, rounds: int) -> list[dict[str, Any]]:
    """Return recall and speed of all points on the reported queries; all contestants alternate."""
    reported = []
    for mode in MODES:
        runners = {
            (name, number): candidate
            for name, points in curves[mode].items()
            for number, candidate in enumerate(points)
        }
        few = slice(None if mode == "batch" else TIMED_ALONE)
        timed = Queries(queries.vectors[few], queries.top[few])
        times = race(runners, timed, mode, rounds)
        contestants: dict[str, list[dict[str, Any]]] = {name: [] for name in curves[mode]}
        for (name, number), candidate in runners.items():
            rates = [len(timed.vectors) / seconds for seconds in times[name, number]]
            row = point(mode, candidate, queries, rates)
            contestants[name].append(row)
            print(
                f"{mode:6s} {name:10s} recall {row['recall']:.4f} {row['qps']:9.0f} QPS {row['qps_interval']}"
                f"  lists {row['lists']}  width {row['width']}  rerank {row['rerank']}",
                flush=True,
            )
        reported.append({"mode": mode, "queries": len(queries.vectors), "contestants": contestants})
    return reported


def point(mode: str, candidate: Candidate, queries: Queries, rates: list[float]) -> dict[str, Any]:
    """Return the entry of one point: settings, recall, and the median of the rounds with its interval."""
    index = candidate.index
    index.configure(candidate.setting)
    speed = summary(rates, 1)
    code = index.code_bytes()
    return {
        **candidate.summary(),
        "recall": round(shared_rows(found_in(index, queries.vectors, mode), queries.top), 4),
        "qps": speed["median"],
        "qps_interval": speed["interval"],
        "bytes_per_vector": round(index.bytes_per_vector(), 1),
        "code_bytes": code and round(code, 2),
    }


def found_in(index: Contestant, vectors: np.ndarray, mode: str) -> np.ndarray:
    """Return the ids that a configured index finds; single queries can give other results than a batch."""
    prepared = index.prepare(vectors)
    if mode == "batch":
        return np.asarray(index.search(prepared))
    found = np.full((len(prepared), K), -1, np.int64)  # ScaNN returns fewer where lists hold fewer
    for row, query in zip(found, prepared, strict=True):
        ids = np.asarray(index.search_one(query)).ravel()
        row[: len(ids)] = ids
    return found
