"""Measure whether target_recall is reached on four data sets, for several k and targets, and its cost.

    python benchmarks/tuning.py --data FOLDER

An index is searched as it was built, with vectors that were left out of it, and tuned with one half of the
user's queries and searched with the other half, both ways. Vectors with equal scores count as equal. Recall may
be at most 0.01 below the target and 0.015 above it, with two standard errors of the measured recall on both
sides. It may be further above only where no cheaper settings reach the target: one list or one step of
candidates less are then below it or take no less time. They can take more, because a search that finds fewer
than k results is repeated with twice the lists.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder, default_metric, load, save

import pcpq
from pcpq import building as opening
from pcpq.experiments.environment import environment
from pcpq.search.recall_curve import CANDIDATES, candidates_for
from pcpq.tuning.ground_truth import ExactAnswers, Truth, TuningQueries

RESULTS = Path(__file__).parent / "results"
SETS = ("glove", "lastfm48k", "npm", "minilm")
KS = (1, 10, 100)
TARGETS = (0.8, 0.9, 0.95, 0.98)
BELOW, ABOVE = 0.01, 0.015
LEFT_OUT = 1500
ROUNDS = 3
TIMES = 9  # rounds of two settings whose times are compared
PARTS = ("as built", "tuned by even", "tuned by odd")


def exact_answers(index: pcpq.Index, base: np.ndarray, queries: np.ndarray) -> Truth:
    """Return the ground truth: the best hundred vectors of each query."""
    tuning_queries = TuningQueries(queries, np.full(len(queries), -1), "given")
    answers = ExactAnswers(index._state.snapshot.trained, tuning_queries)
    answers.observe(base, 0)
    return answers.truth()


def cells(index: pcpq.Index, base: np.ndarray, queries: np.ndarray) -> list[dict[str, Any]]:
    """Return the recall for every k and target."""
    truth, found = exact_answers(index, base, queries), []
    curve = index._state.snapshot.recall

    def shares_of(k: int, probes: int, rerank: int) -> np.ndarray:
        ids = index.search(queries, k, probes=max(probes, 1), rerank=max(rerank, k)).ids
        return (truth.ranks_of(ids) < k).mean(axis=1)

    def seconds_of(k: int, *settings: tuple[int, int]) -> list[float]:
        """Return the CPU time of each of several settings, in turns; the median."""
        times = np.empty((TIMES, len(settings)))
        for each in times:
            for number, (probes, rerank) in enumerate(settings):
                start = time.process_time()
                index.search(queries, k, probes=probes, rerank=rerank, threads=1)
                each[number] = time.process_time() - start
        return np.median(times, axis=0).tolist()

    def is_cheaper(k: int, settings: tuple[int, int], chosen: tuple[int, int]) -> bool:
        """Return whether settings take less time than those chosen; a few per cent are no difference."""
        own, their = seconds_of(k, chosen, settings)
        return their < 0.95 * own

    for k in KS:
        steps = [candidates_for(k, each) for each in CANDIDATES]
        for target in TARGETS:
            probes, rerank, _ = curve.choose(k, target)
            shares = shares_of(k, probes, rerank)
            recall, error = float(shares.mean()), float(shares.std() / np.sqrt(len(shares)))
            fewer = max((step for step in steps if step < rerank), default=rerank)
            others = {(max(probes - 1, 1), rerank), (probes, fewer)} - {(probes, rerank)}
            reaching = [settings for settings in others if shares_of(k, *settings).mean() >= target]
            cheapest = not any(is_cheaper(k, settings, (probes, rerank)) for settings in reaching)
            found.append(
                {
                    "k": k,
                    "target": target,
                    "recall": round(recall, 4),
                    "error": round(error, 4),
                    "probes": probes,
                    "rerank": rerank,
                    "not below": bool(recall >= target - BELOW - 2 * error),
                    "not above": bool(recall <= target + ABOVE + 2 * error),
                    "cheapest": cheapest,
                }
            )
    return found


def cost(base: np.ndarray, metric: str) -> dict[str, float]:
    """Return the seconds of a build, and of its recall measurement; the best of some rounds."""
    spent = [0.0]

    def timed(work: Any) -> Any:
        def measured(*arguments: Any) -> Any:
            start = time.perf_counter()
            answer = work(*arguments)
            spent[0] += time.perf_counter() - start
            return answer

        return measured

    original = (ExactAnswers.observe_rows, ExactAnswers.truth, opening.measure)
    ExactAnswers.observe_rows, ExactAnswers.truth, opening.measure = map(timed, original)  # type: ignore[method-assign]
    times = []
    try:
        for _ in range(ROUNDS):
            spent[0] = 0.0
            start = time.perf_counter()
            pcpq.build(base, metric=metric)
            times.append((time.perf_counter() - start, spent[0]))
    finally:
        ExactAnswers.observe_rows, ExactAnswers.truth, opening.measure = original  # type: ignore[method-assign]
    whole, tuning = min(times)
    return {
        "build": round(whole - tuning, 2),
        "tuning": round(tuning, 3),
        "share": round(tuning / (whole - tuning), 3),
    }


def run(folder: Path, name: str) -> dict[str, Any]:
    """Return the results of one data set, with both halves of the queries."""
    data, metric = load(folder, name), default_metric(name)
    answers: dict[str, Any] = {"metric": metric, "seconds": cost(data.base, metric)}
    order = np.random.default_rng(0).permutation(len(data.base))
    rest, queries = data.base[np.sort(order[LEFT_OUT:])], data.base[order[:LEFT_OUT]]
    queries = queries[np.linalg.norm(queries, axis=1) > 0]  # any vector is an answer of a zero query
    answers["as built"] = cells(pcpq.build(rest, metric=metric), rest, queries)
    halves = data.all_queries[0::2], data.all_queries[1::2]
    index = pcpq.build(data.base, metric=metric)
    for direction, (tune, report) in (("even", halves), ("odd", halves[::-1])):
        index.tune(tune)
        answers[f"tuned by {direction}"] = cells(index, data.base, report)
    return answers


def main() -> None:
    """Parse options and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    options = parser.parse_args()
    runs = {}
    for name in options.sets:
        runs[name] = run(data_folder(options.data), name)
        for part in PARTS:
            some = runs[name][part]
            fine = [cell for cell in some if cell["not below"] and (cell["not above"] or cell["cheapest"])]
            print(name, runs[name]["seconds"], part, len(fine), "of", len(some), flush=True)
            print([cell for cell in some if cell not in fine], flush=True)
    save(RESULTS / "tuning.json", {"environment": environment(), "rounds": ROUNDS, "runs": runs})


if __name__ == "__main__":
    main()
