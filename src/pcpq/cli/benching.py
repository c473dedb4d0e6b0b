"""The command `pcpq bench`."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pcpq.cli.measuring import TARGETS, add_exam, curve_of, queries_of
from pcpq.cli.parsers import Commands, add_index, add_input, add_json, add_threads
from pcpq.cli.terminal import print_result, print_table
from pcpq.index import Index, state_of
from pcpq.util.progress import Progress, progress_bar

# A speed is the best of several runs: at least RUNS runs, and at least SECONDS seconds in total.
SECONDS, RUNS = 0.4, 3


def add_bench(commands: Commands) -> None:
    """Add the command `pcpq bench INDEX [QUERIES]`."""
    parser = commands.add(
        "bench",
        bench,
        "measure recall and queries per second",
        [
            "pcpq bench words.pcpq",
            "pcpq bench words.pcpq queries.npy --vectors words.txt -k 20",
        ],
        "Recall is measured against exact answers. All queries are searched in one batch. A query that is a "
        "vector of the index is not counted as its own result.",
    )
    add_index(parser)
    add_exam(parser)
    parser.add_argument("-k", metavar="N", type=int, default=10, help="results per query (default: 10)")
    parser.add_argument(
        "--targets",
        metavar="SHARE",
        type=float,
        nargs="+",
        default=list(TARGETS),
        help="target recalls (default: 0.8 0.9 0.95 0.99)",
    )
    add_threads(parser)
    add_json(parser)
    add_input(parser, "QUERIES")


def bench(options: argparse.Namespace) -> None:
    """Compute exact answers, then measure searches on one thread and on all threads."""
    import pcpq
    from pcpq.cli.exact import MOST_RESULTS, make_exam
    from pcpq.io.formats import read_vectors
    from pcpq.util.threads import available_threads

    threads = sorted({1, available_threads(options.threads)})
    queries = queries_of(options)
    file = None if options.vectors is None else read_vectors(options.vectors)
    rows = []
    with (
        pcpq.open(options.index) as index,
        progress_bar(len(options.targets) + 1) as bar,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # a target that cannot be reached: shown in the table
        if len(index) < 2:
            raise ValueError(f"{options.index} has {len(index)} vectors; at least 2 are needed")
        if not 1 <= options.k <= min(MOST_RESULTS, len(index) - 1):
            raise ValueError(f"k is {options.k}; expected 1 to {min(MOST_RESULTS, len(index) - 1)}")
        bar.say("exact answers")
        exam = make_exam(index, queries, file)
        bar.advance(1)
        for target in options.targets:
            rows.append(measured(index, exam, options.k, target, threads, bar))
        bytes_per_vector = sum(index.stats()["bytes_per_vector"].values())
    found = {
        "index": options.index,
        "k": options.k,
        "queries": len(exam.queries),
        "measured": exam.kind,
        "bytes_per_vector": bytes_per_vector,
        "rows": rows,
    }
    print_result(options.json, found, lambda: print_bench(found, threads))


def measured(
    index: Index, exam: Any, k: int, target: float, threads: list[int], bar: Progress
) -> dict[str, Any]:
    """Return recall, settings and speed of searches with one target recall."""
    bar.say(f"target {target:g}")
    has_own = bool((exam.own >= 0).any())

    def search(count: int) -> Any:
        return index.search(exam.queries, k + has_own, target_recall=target, threads=count).ids

    ids = as_numbers(index, search(threads[-1]))
    if has_own:  # drop the query itself, or the last result if it was not found
        order = np.argsort(ids == exam.own[:, None], axis=1, kind="stable")[:, :k]
        ids = np.take_along_axis(ids, order, axis=1)
    curve = curve_of(index)
    choice = None if curve is None else curve.choose(k + has_own, target)
    speeds = {count: len(exam.queries) / best_seconds(partial(search, count)) for count in threads}
    bar.advance(1)
    return {
        "target_recall": target,
        "recall": exam.recall(ids, k),
        "probes": None if choice is None else choice.probes,
        "rerank": None if choice is None else choice.rerank,
        "queries_per_second": speeds,
    }


def best_seconds(work: Callable[[], Any]) -> float:
    """Return the shortest time of several runs, because other load on the machine only makes runs slower."""
    times: list[float] = []
    while len(times) < RUNS or sum(times) < SECONDS:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def print_bench(found: dict[str, Any], threads: list[int]) -> None:
    """Print the measurements as a table."""
    names = [f"queries/s, {count} thread{'s' * (count > 1)}" for count in threads]
    rows = [
        (
            f"{row['target_recall']:g}",
            f"{row['recall']:.3f}",
            "all" if row["probes"] is None else f"{row['probes']:,}",
            "all" if row["rerank"] is None else f"{row['rerank']:,}",
            *(f"{row['queries_per_second'][count]:,.0f}" for count in threads),
        )
        for row in found["rows"]
    ]
    title = (
        f"{found['index']}: {found['queries']:,} queries ({found['measured']}), k={found['k']}, "
        f"{found['bytes_per_vector']:.1f} bytes per vector"
    )
    print_table(("target", "recall", "probes", "rerank", *names), rows, title=title)


def as_numbers(index: Index, ids: Any) -> Any:
    """Return the internal numbers of ids."""
    from pcpq.tuning.measure import given_answers

    return given_answers(state_of(index).snapshot, ids).ids
