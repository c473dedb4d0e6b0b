"""Compare a local Ray cluster with plain processes: equal results, throughput by nodes, overhead per query.

    python benchmarks/ray_cluster.py --data FOLDER
    python benchmarks/ray_cluster.py --data FOLDER --rows 20000 --seconds 2 --rounds 1 --cores 1     a quick try

Each node has one CPU and is pinned to its own core, as are the plain processes, each of which opens the same
index and searches it. One and two processes or nodes alternate in turns of two seconds, in one cluster; when
one node is measured, the other is idle. The throughput that the second node adds is divided by that of the
second process, by medians. The driver, which sends batches and waits, is not pinned. Overhead is the time of
a call minus that of the same call on a local index, alternating; the time of an empty call is shown for
comparison.
Results go to benchmarks/results/ray_cluster.json; with --rows the name contains the size.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

# Set before Ray is imported: use only the address 127.0.0.1.
os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0")

import numpy as np
import ray
from common import data_folder, default_metric, load, save
from ray.cluster_utils import Cluster

import pcpq
from pcpq.experiments.environment import environment
from pcpq.integrations.ray import ShardedIndex

RESULTS = Path(__file__).parent / "results"
MEMORY = 200 << 20  # bytes of the object store per node
BATCH = 4000
SETTINGS = {"k": 10}  # the default target recall of 0.95
# Batches in flight per node: one is searched, one waits.
AHEAD = 2
WARM = 8.0  # seconds
# Overhead is measured by queries per call: number of calls, and the most microseconds per query.
OVERHEADS = {1: (500, 4000.0), 100: (200, 100.0)}


def search_alone(path: str, queries: np.ndarray, core: int, orders: Any) -> None:
    """Search batches in a plain process, for the number of seconds that each message contains."""
    os.sched_setaffinity(0, {core})
    with pcpq.open(path) as index:
        index.search(queries, threads=1, **SETTINGS)
        orders.send("ready")
        while (seconds := orders.recv()) is not None:
            count, start = 0, time.perf_counter()
            while time.perf_counter() < start + seconds:
                index.search(queries, threads=1, **SETTINGS)
                count += len(queries)
            orders.send(count / (time.perf_counter() - start))


@contextmanager
def processes(path: str, queries: np.ndarray, cores: list[int]) -> Iterator[list[Any]]:
    """Start one process per core, and yield the connections to them."""
    context = multiprocessing.get_context("spawn")
    connections = []
    for core in cores:
        ours, theirs = context.Pipe()
        process = context.Process(target=search_alone, args=(path, queries, core, theirs), daemon=True)
        process.start()
        ours.recv()
        connections.append(ours)
    yield connections
    for connection in connections:
        connection.send(None)


def plain_throughput(some: list[Any], seconds: float) -> float:
    """Return the total queries per second of plain processes that run at the same time."""
    for connection in some:
        connection.send(seconds)
    return float(sum(connection.recv() for connection in some))


@contextmanager
def nodes(cores: list[int]) -> Iterator[None]:
    """Start a cluster: a head without CPUs, and one node with one CPU per core."""
    everywhere = os.sched_getaffinity(0)
    head = {"num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head | {"node_ip_address": "127.0.0.1"})
    try:
        for core in cores:
            os.sched_setaffinity(0, {core})  # inherited by the processes of the node
            cluster.add_node(num_cpus=1, object_store_memory=MEMORY, node_ip_address="127.0.0.1")
        os.sched_setaffinity(0, everywhere)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        yield
    finally:
        os.sched_setaffinity(0, everywhere)
        ray.shutdown()
        cluster.shutdown()


def throughput(index: Any, queries: np.ndarray, seconds: float, ahead: int) -> float:
    """Return the queries per second of several concurrent callers."""
    index.search(queries, **SETTINGS)
    counts, end = [0] * ahead, time.perf_counter() + seconds

    def call(number: int) -> None:
        while time.perf_counter() < end:
            index.search(queries, **SETTINGS)
            counts[number] += len(queries)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(ahead)]
    start = time.perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return sum(counts) / (time.perf_counter() - start)


def in_turns(
    path: str, queries: np.ndarray, cores: list[int], seconds: float, rounds: int
) -> dict[str, list[int]]:
    """Return the queries per second of plain processes and of nodes with the whole index, by their number."""
    counts = range(1, len(cores) + 1)
    found: dict[str, list[int]] = {f"{n} {kind}": [] for n in counts for kind in ("processes", "nodes")}
    with processes(path, queries, cores) as plain, nodes(cores), ExitStack() as stack:
        sharded = {
            n: stack.enter_context(ShardedIndex.open(path, shards=1, replicas=n, num_cpus=0.4)) for n in counts
        }
        for index in sharded.values():
            throughput(index, queries, WARM, AHEAD)  # until Ray has started its background processes
        for _ in range(rounds):
            for n in counts:
                found[f"{n} processes"].append(round(plain_throughput(plain[:n], seconds)))
                found[f"{n} nodes"].append(round(throughput(sharded[n], queries, seconds, AHEAD * n)))
            print(", ".join(f"{name}: {some[-1]:,}" for name, some in found.items()), flush=True)
    return found


def overhead(local: Any, sharded: Any, queries: np.ndarray, batch: int, calls: int) -> dict[str, float]:
    """Return the median microseconds of local and sharded calls, measured in alternation."""
    times: dict[str, list[float]] = {"local": [], "sharded": []}
    for call in range(calls + 5):
        some = queries[(call * batch) % (len(queries) - batch) :][:batch]
        some = some[0] if batch == 1 else some
        for name, index, threads in (("local", local, {"threads": 1}), ("sharded", sharded, {})):
            start = time.perf_counter()
            index.search(some, **SETTINGS, **threads)
            if call >= 5:
                times[name].append(time.perf_counter() - start)
    found = {name: round(1e6 * float(np.median(one)), 1) for name, one in times.items()}
    more = found["sharded"] - found["local"]
    more_per_query = round(more / batch, 1)
    return {"queries": batch, **found, "overhead": round(more, 1), "overhead_per_query": more_per_query}


class Nothing:
    """An actor with an empty method, to measure the overhead of Ray."""

    def do(self) -> None:
        """Do nothing."""


def empty_call(calls: int) -> float:
    """Return the median microseconds of an empty call."""
    actor = ray.remote(num_cpus=0)(Nothing).remote()
    times = []
    for call in range(calls + 5):
        start = time.perf_counter()
        ray.get(actor.do.remote())
        if call >= 5:
            times.append(time.perf_counter() - start)
    ray.kill(actor)
    return round(1e6 * float(np.median(times)), 1)


def equal_answers(local: Any, sharded: Any, queries: np.ndarray, n: int) -> dict[str, bool]:
    """Return whether scores and ids are equal bit by bit, for several kinds of searches."""
    some = np.arange(0, n, 3)
    kinds: dict[str, dict[str, Any]] = {
        "as they come": {},
        "target_recall": {"target_recall": 0.99},
        "probes and rerank": {"probes": 32, "rerank": 100},
        "filter": {"filter": some},
        "exclude": {"exclude": some, "probes": 20},
    }
    found = {}
    for name, settings in kinds.items():
        one, other = local.search(queries, **settings), sharded.search(queries, **settings)
        found[name] = bool(np.array_equal(one.scores, other.scores) and np.array_equal(one.ids, other.ids))
    return found


def main() -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--set", default="glove")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cores", type=int, nargs="+", default=sorted(os.sched_getaffinity(0))[:2])
    options = parser.parse_args()
    rows = options.rows or 300_000
    data = load(data_folder(options.data), options.set, rows=rows)
    queries = np.ascontiguousarray(np.resize(data.all_queries, (BATCH, data.all_queries.shape[1])))
    cores = options.cores
    result: dict[str, Any] = {
        "environment": environment("ray"),
        "data": {"name": data.name, "n": len(data.base), "d": data.base.shape[1]},
        "settings": SETTINGS | {"batch": BATCH},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "index")
        pcpq.build(data.base, metric=default_metric(data.name)).save(path)
        result["queries_per_second"] = in_turns(path, queries, cores, options.seconds, options.rounds)
        with nodes(cores), pcpq.open(path) as local:
            with ShardedIndex.open(path, shards=len(cores)) as sharded:
                some = [throughput(sharded, queries, options.seconds, AHEAD * len(cores)) for _ in range(3)]
                result["queries_per_second"][f"{len(cores)} nodes, a shard each"] = [round(one) for one in some]
                result["equal"] = equal_answers(local, sharded, data.all_queries, len(data.base))
                result["empty_call_us"] = empty_call(500)
                result["overhead_us"] = {
                    f"{len(cores)} shards, {batch} queries": overhead(local, sharded, queries, batch, calls)
                    for batch, (calls, _) in OVERHEADS.items()
                }
            with ShardedIndex.open(path, shards=1) as sharded:
                result["overhead_us"] |= {
                    f"1 shard, {batch} queries": overhead(local, sharded, queries, batch, calls)
                    for batch, (calls, _) in OVERHEADS.items()
                }
    medians = {name: float(np.median(one)) for name, one in result["queries_per_second"].items()}
    result["medians"] = medians
    if len(cores) > 1:
        more = {kind: medians[f"2 {kind}"] - medians[f"1 {kind}"] for kind in ("nodes", "processes")}
        result["second_node_over_second_process"] = round(more["nodes"] / more["processes"], 3)
    suffix = f"_{options.rows}" if options.rows else ""
    save(RESULTS / f"ray_cluster{suffix}.json", result)
    if not all(result["equal"].values()):
        sys.exit(f"answers differ: {result['equal']}")
    for name, found in result["overhead_us"].items():
        bound = OVERHEADS[int(found["queries"])][1]
        if found["overhead_per_query"] > bound:
            sys.exit(
                f"{name}: {found['overhead_per_query']} µs of overhead per query; at most {bound} are allowed"
            )


if __name__ == "__main__":
    main()
