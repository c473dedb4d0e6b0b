"""The order in which each project calls an adapter, and what it counts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from data import WordSet, distances
from definitions import Definition
from numpy.typing import NDArray

# What ann-benchmarks and VIBE forgive in a distance.
EPSILON = 1e-3


class Outcome(NamedTuple):
    """Of one setting."""

    algorithm: str
    name: str
    recall: float
    queries_per_second: float
    build_seconds: float
    kilobytes: float
    additional: dict[str, Any]


def one_by_one(algo: Any, queries: NDArray[Any], count: int) -> tuple[float, list[Any]]:
    """Seconds of all queries, and what they found."""
    found, seconds = [], 0.0
    for query in queries:
        if hasattr(algo, "prepare_query"):
            algo.prepare_query(query, count)
            start = time.perf_counter()
            algo.run_prepared_query()
            seconds += time.perf_counter() - start
            found.append(algo.get_prepared_query_results())
        else:
            start = time.perf_counter()
            result = algo.query(query, count)
            seconds += time.perf_counter() - start
            found.append(result)
    return seconds, found


def all_at_once(algo: Any, queries: NDArray[Any], count: int) -> tuple[float, list[Any]]:
    """The same in one call."""
    if hasattr(algo, "prepare_batch_query"):
        algo.prepare_batch_query(queries, count)
        start = time.perf_counter()
        algo.run_batch_query()
    else:
        start = time.perf_counter()
        algo.batch_query(queries, count)
    seconds = time.perf_counter() - start
    return seconds, list(algo.get_batch_results())


def threshold_recall(
    queries: NDArray[Any], rows: NDArray[Any], found: list[Any], near: NDArray[Any], count: int, distance: str
) -> float:
    """The share of results that are as near as the count-th true neighbour."""
    within = 0
    for query, result, true in zip(queries, found, near, strict=True):
        numbers = np.asarray(result)
        if len(set(numbers.tolist())) != len(numbers) or len(numbers) > count:
            raise AssertionError(f"{len(numbers)} results for {count}, or one of them twice: {numbers}")
        far = distances(query[None].astype(np.float64), rows[numbers].astype(np.float64), distance)[0]
        within += int((far <= true[count - 1] + EPSILON).sum())
    return within / (count * len(queries))


def follow_hdf5(definition: Definition, path: Path, count: int, runs: int, batch: bool) -> list[Outcome]:
    """ann-benchmarks and VIBE."""
    import h5py

    algo = definition.make()
    with h5py.File(path) as file:
        train, test, near = np.array(file["train"]), np.array(file["test"]), np.array(file["distances"])
        learn = np.array(file["learn"]), np.array(file["learn_neighbors"])
        distance = str(file.attrs["distance"])
    outcomes = []
    try:
        if hasattr(algo, "supports_prepared_queries"):
            algo.supports_prepared_queries()
        before, start = algo.get_memory_usage(), time.perf_counter()
        if definition.ood:
            algo.fit_ood(train, *learn)
        else:
            algo.fit(train)
        build_seconds, kilobytes = time.perf_counter() - start, algo.get_memory_usage() - before
        for arguments in definition.queries or [[]]:
            if arguments:
                algo.set_query_arguments(*arguments)
            ask = all_at_once if batch else one_by_one
            seconds, found = min((ask(algo, test, count) for _ in range(runs)), key=lambda run: run[0])
            recall = threshold_recall(test, train, found, near, count, distance)
            speed, additional = len(test) / seconds, algo.get_additional()
            outcomes.append(
                Outcome(definition.name, str(algo), recall, speed, build_seconds, kilobytes, additional)
            )
    finally:
        if hasattr(algo, "done"):
            algo.done()
    return outcomes


def shared(found: NDArray[Any], near: NDArray[Any], count: int) -> float:
    """The share of the true `count` nearest that were found; what may not be found is infinitely far."""
    best = np.argsort(near, axis=1, kind="stable")[:, :count]
    possible = np.isfinite(np.take_along_axis(near, best, axis=1))
    hits = [np.isin(mine[ok], theirs).sum() for mine, ok, theirs in zip(best, possible, found, strict=True)]
    return float(np.sum(hits) / possible.sum())


def range_precision(results: tuple[Any, Any, Any], near: NDArray[Any], radius: float) -> float:
    """The share of all that lies within a squared distance that was found; what lies outside is an error."""
    limits, scores, ids = results
    hits = 0
    for number, row in enumerate(near):
        some, inside = ids[limits[number] : limits[number + 1]], np.flatnonzero(row**2 < radius)
        if (row[some] ** 2 > radius * (1 + 1e-4)).any() or len(scores) != limits[-1]:
            raise AssertionError(f"results of query {number} lie outside {radius}")
        hits += len(np.intersect1d(some, inside))
    return hits / max(1, int((near**2 < radius).sum()))


def follow_big_ann(definition: Definition, name: str, data: WordSet, count: float, runs: int) -> list[Outcome]:
    """big-ann-benchmarks: an index is built and stored, or was and is loaded; then all queries at once."""
    algo, outcomes, queries = definition.make(), [], data.get_queries()
    near = np.where(data.allowed(), data.near(), np.inf)
    try:
        before, start = algo.get_memory_usage(), time.perf_counter()
        if not algo.load_index(name):
            algo.fit(name)
        build_seconds, kilobytes = time.perf_counter() - start, algo.get_memory_usage() - before
        for arguments in definition.queries or [[]]:
            if arguments:
                algo.set_query_arguments(*arguments)
            best = np.inf
            for _ in range(runs):
                start = time.perf_counter()
                if data.search_type() == "range":
                    algo.range_query(queries, count)
                elif data.search_type() == "knn_filtered":
                    algo.filtered_query(queries, data.get_queries_metadata(), int(count))
                else:
                    algo.query(queries, int(count))
                best = min(best, time.perf_counter() - start)
            if data.search_type() == "range":
                recall = range_precision(algo.get_range_results(), near, count)
            else:
                results = algo.get_results()
                if len(results) != len(queries):
                    raise AssertionError(f"{len(results)} results for {len(queries)} queries")
                recall = shared(results, near, int(count))
            speed, additional = len(queries) / best, algo.get_additional()
            outcomes.append(
                Outcome(definition.name, str(algo), recall, speed, build_seconds, kilobytes, additional)
            )
    finally:
        algo.done()
    return outcomes


def runbook(rows: int) -> list[dict[str, Any]]:
    """Steps as big-ann's runbooks have them: vectors come, go and are replaced between searches."""
    small, half = rows // 10, rows // 2
    return [
        {"operation": "insert", "start": 0, "end": small},
        {"operation": "search"},
        {"operation": "insert", "start": small, "end": rows},
        {"operation": "search"},
        {"operation": "delete", "start": half, "end": half + small},
        {"operation": "search"},
        {"operation": "insert", "start": half, "end": half + small},
        {"operation": "replace", "tags_start": 0, "tags_end": small, "ids_start": small, "ids_end": 2 * small},
        {"operation": "search"},
    ]


def follow_stream(definition: Definition, data: WordSet, count: int) -> list[Outcome]:
    """big-ann's streams: one outcome for each search of the runbook."""
    outcomes, queries, near = [], data.get_queries(), data.near()
    for arguments in definition.queries or [[]]:
        algo, there = definition.make(), np.full(data.nb, -1)  # the row that each id has now
        if arguments:
            algo.set_query_arguments(*arguments)
        before, start = algo.get_memory_usage(), time.perf_counter()
        algo.setup(data.dtype, data.nb, data.d)
        for step, entry in enumerate(runbook(data.nb), 1):
            start = time.perf_counter()
            if entry["operation"] == "insert":
                ids = np.arange(entry["start"], entry["end"], dtype=np.uint32)
                algo.insert(data.get_data_in_range(entry["start"], entry["end"]), ids)
                there[ids] = ids
            elif entry["operation"] == "delete":
                ids = np.arange(entry["start"], entry["end"], dtype=np.uint32)
                algo.delete(ids)
                there[ids] = -1
            elif entry["operation"] == "replace":
                ids = np.arange(entry["tags_start"], entry["tags_end"], dtype=np.uint32)
                algo.replace(data.get_data_in_range(entry["ids_start"], entry["ids_end"]), ids)
                there[ids] = np.arange(entry["ids_start"], entry["ids_end"])
            else:
                algo.query(queries, count)
                seconds = time.perf_counter() - start
                now = np.where(there >= 0, near[:, there], np.inf)
                recall = shared(algo.get_results(), now, count)
                kilobytes = algo.get_memory_usage() - before
                name = f"{algo}, step {step}"
                speed = len(queries) / seconds
                outcomes.append(
                    Outcome(definition.name, name, recall, speed, 0.0, kilobytes, algo.get_additional())
                )
        algo.done()
    return outcomes
