"""Measure whether target_recall is reached on four data sets, for several k and targets, and its cost.

    python benchmarks/tuning.py --data FOLDER

An index is tuned with one half of the queries (glove: not at all, its queries are like its vectors) and
searched with the other half, then vice versa. Vectors with equal scores count as equal. Recall may be below the
target by at most 0.01, or two standard errors of the measured recall.
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
from pcpq.tuning.ground_truth import ExactAnswers, Truth, TuningQueries

RESULTS = Path(__file__).parent / "results"
SETS = ("glove", "lastfm48k", "npm", "minilm")
LIKE_VECTORS = ("glove",)
KS = (1, 2, 5, 10, 20, 50, 100)
TARGETS = (0.8, 0.9, 0.95, 0.99)
ROUNDS = 3


def exact_answers(index: pcpq.Index, base: np.ndarray, queries: np.ndarray) -> Truth:
    """Return the ground truth: the best hundred vectors of each query."""
    tuning_queries = TuningQueries(queries, np.full(len(queries), -1), "given")
    answers = ExactAnswers(index._state.snapshot.trained, tuning_queries)
    answers.observe(base, 0)
    return answers.truth()


def cells(index: pcpq.Index, base: np.ndarray, queries: np.ndarray) -> list[dict[str, Any]]:
    """Return the recall for every k and target."""
    truth, found = exact_answers(index, base, queries), []
    for k in KS:
        for target in TARGETS:
            ids = index.search(queries, k, target_recall=target).ids
            shares = (truth.ranks_of(ids) < k).mean(axis=1)
            error = float(shares.std() / np.sqrt(len(shares)))
            recall = float(shares.mean())
            found.append(
                {
                    "k": k,
                    "target": target,
                    "recall": round(recall, 4),
                    "error": round(error, 4),
                    "kept": bool(recall >= target - max(0.01, 2 * error)),
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

    original = (ExactAnswers.observe, ExactAnswers.truth, opening.measure)
    ExactAnswers.observe, ExactAnswers.truth, opening.measure = map(timed, original)  # type: ignore[method-assign]
    times = []
    try:
        for _ in range(ROUNDS):
            spent[0] = 0.0
            start = time.perf_counter()
            pcpq.build(base, metric=metric)
            times.append((time.perf_counter() - start, spent[0]))
    finally:
        ExactAnswers.observe, ExactAnswers.truth, opening.measure = original  # type: ignore[method-assign]
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
    halves = data.queries[0::2], data.queries[1::2]
    for direction, (tune, report) in (("even", halves), ("odd", halves[::-1])):
        index = pcpq.build(data.base, metric=metric)
        if name not in LIKE_VECTORS:
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
        both = [cell for half in ("even", "odd") for cell in runs[name][f"tuned by {half}"]]
        print(name, runs[name]["seconds"], sum(cell["kept"] for cell in both), "kept of", len(both), flush=True)
    save(RESULTS / "tuning.json", {"environment": environment(), "rounds": ROUNDS, "runs": runs})


if __name__ == "__main__":
    main()
