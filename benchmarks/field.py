"""What a user gets who sets no variables, on an idle machine and beside a busy process on every CPU.

    python benchmarks/field.py --data DIR [--only build search changes where]

build     seconds of pcpq.build in a process of its own, with OPENBLAS_NUM_THREADS=1 and without
search    µs per query by batch size, with default threads and with one thread
changes   µs of a single query after removals and additions, against the unchanged index
where     ms of CPU time of a search with a condition: new, repeated, and as a Bitmap

All conditions of a part are measured in turns. The result is benchmarks/results/field.json: medians over rounds
with 95 % intervals by bootstrap.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder, save, summary

import pcpq
from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
PARTS = ("build", "search", "changes", "where")
VARIABLE = "OPENBLAS_NUM_THREADS"
BATCHES = (1, 2, 5, 10, 30, 100, 200, 300, 500, 700, 1000, 3000)
ROUNDS = {"build": 3, "search": 9, "changes": 9, "where": 9}
BUILD = """
import sys, time
import numpy as np
import pcpq
vectors = np.load(sys.argv[1]).astype(np.float32)
start = time.perf_counter()
pcpq.build(vectors, metric="cosine")
print(time.perf_counter() - start)
"""


def spin() -> None:
    """Keep a CPU busy."""
    while True:
        pass


@contextmanager
def busy_machine(busy: bool) -> Iterator[None]:
    """Run a busy process on every CPU."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)] if busy else []
    for process in processes:
        process.start()
    time.sleep(0.5 * busy)
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def ratios(rounds: list[dict[str, float]], above: str, below: str) -> dict[str, Any]:
    """Return the median ratio of two measurements of the same round."""
    return summary([one[above] / one[below] for one in rounds])


def measure_builds(base: Path) -> dict[str, Any]:
    """Return the seconds of builds, with the variable and without, idle and busy."""
    found: dict[str, Any] = {}
    for name, busy in (("idle", False), ("busy", True)):
        rounds: list[dict[str, float]] = []
        with busy_machine(busy):
            for number in range(ROUNDS["build"]):
                one = {}
                for setting in ("default", "one")[:: 1 if number % 2 else -1]:
                    own = {key: value for key, value in os.environ.items() if key != VARIABLE}
                    own |= {VARIABLE: "1"} if setting == "one" else {}
                    command = [sys.executable, "-c", BUILD, str(base)]
                    one[setting] = float(
                        subprocess.run(command, env=own, capture_output=True, check=True).stdout
                    )
                rounds.append(one)
                print(name, one, flush=True)
        found[name] = {
            "without the variable, seconds": summary([one["default"] for one in rounds]),
            f"{VARIABLE}=1, seconds": summary([one["one"] for one in rounds]),
            "without over with": ratios(rounds, "default", "one"),
        }
    return found


def repeated(work: Callable[[int], Any], seconds: float = 0.3) -> float:
    """Return the mean seconds of a call, from calls for a while."""
    start, number = time.perf_counter(), 0
    while number < 3 or time.perf_counter() - start < seconds:
        work(number)
        number += 1
    return (time.perf_counter() - start) / number


def measure_searches(index: pcpq.Index, queries: np.ndarray) -> dict[str, Any]:
    """Return µs per query by batch size with default threads and with one."""
    found: dict[str, Any] = {}
    many = np.concatenate([queries, queries, queries])[:3000]
    for name, busy in (("idle", False), ("busy", True)):
        rows = []
        with busy_machine(busy):
            for n in BATCHES:
                rounds: list[dict[str, float]] = []
                parts = [many[start : start + n] for start in range(0, len(many) - n + 1, n)]
                for number in range(ROUNDS["search"]):
                    one = {}
                    for setting, threads in (("default", None), ("one", 1))[:: 1 if number % 2 else -1]:

                        def work(i: int, parts: Any = parts, threads: Any = threads) -> None:
                            index.search(parts[i % len(parts)], threads=threads)

                        one[setting] = repeated(work) / n * 1e6
                    rounds.append(one)
                row = {
                    "queries": n,
                    "default, µs": summary([one["default"] for one in rounds], 2),
                    "one thread, µs": summary([one["one"] for one in rounds], 2),
                    "default over one": ratios(rounds, "default", "one"),
                }
                print(name, n, row["default over one"], flush=True)
                rows.append(row)
        found[name] = rows
    return found


def measure_changes(base: np.ndarray, queries: np.ndarray) -> dict[str, Any]:
    """Return µs of a single query on changed indexes, and their ratio to the unchanged one."""
    rng = np.random.default_rng(0)
    extra = base[-1000:]
    indexes = {"unchanged": pcpq.build(base[:-1000], metric="cosine")}
    for name, removed, added in (
        ("1 removed", 1, 0),
        ("1 % removed", len(base) // 100, 0),
        ("1 added", 0, 1),
        ("1,000 added", 0, 1000),
        ("1 % removed, 1,000 added", len(base) // 100, 1000),
    ):
        index = pcpq.build(base[:-1000], metric="cosine")
        if removed:
            index.remove(rng.permutation(len(base) - 1000)[:removed])
        if added:
            index.add(extra[:added])
        indexes[name] = index
    rounds: list[dict[str, float]] = []
    for _ in range(ROUNDS["changes"]):
        one = {}
        for name, index in indexes.items():
            one[name] = repeated(lambda i, index=index: index.search(queries[i % len(queries)])) * 1e6
        rounds.append(one)
    return {
        name: {
            "µs": summary([one[name] for one in rounds], 2),
            "over unchanged": ratios(rounds, name, "unchanged"),
        }
        for name in indexes
    }


def measure_conditions(base: np.ndarray, queries: np.ndarray) -> dict[str, Any]:
    """Return ms of CPU time of searches with conditions."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    columns = {
        "year": rng.integers(1990, 2030, len(base)),
        "price": rng.random(len(base)) * 100,
        "lang": np.array(["en", "de", "fr", "es"])[rng.integers(0, 4, len(base))],
        "title": [f"title {number}" for number in range(len(base))],
    }
    index = pcpq.build(base, metric="cosine", attributes=pa.table(columns))
    index.search(queries)  # recall is checked by the first queries, once
    bitmap = pcpq.Bitmap(np.flatnonzero(columns["year"] > 2020))
    counter = iter(range(10**9))
    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "no condition": lambda: {},
        "repeated": lambda: {"where": "year > 2020 AND lang = 'en'"},
        "Bitmap": lambda: {"filter": bitmap},
        "new, numbers": lambda: {"where": f"year > 2020 AND price < {50 + next(counter) * 1e-6:.6f}"},
        "new, few strings": lambda: {"where": f"lang = 'en' AND year > {1500 + next(counter)}"},
        "new, many strings": lambda: {"where": f"title = 'title {next(counter)}'"},
        "new, IN": lambda: {"where": f"lang IN ('en', 'de') AND year > {1500 + next(counter)}"},
        "new, LIKE": lambda: {"where": f"title LIKE 'title {next(counter)}%'"},
    }
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(ROUNDS["where"] + 1):
        for name, options in kinds.items():
            start = time.process_time()
            for i in range(10):
                index.search(queries[i], **options())
            if number:  # the first round opens connections and fills caches
                times[name].append((time.process_time() - start) / 10 * 1e3)
    return {name: summary(values) for name, values in times.items()}


def main() -> None:
    """Run the chosen parts and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="the folder of data sets; default: PCPQ_DATA")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    if VARIABLE in os.environ:
        sys.exit(f"{VARIABLE} is set; users do not set it")
    folder = data_folder(options.data)
    path = RESULTS / "field.json"
    result = json.loads(path.read_text()) if path.exists() else {}
    result["data"] = "glove"
    base = np.load(folder / "glove_base.npy").astype(np.float32)
    queries = np.load(folder / "glove_query.npy").astype(np.float32)
    for part in options.only:
        if part == "build":
            found = measure_builds(folder / "glove_base.npy")
        elif part == "search":
            found = measure_searches(pcpq.build(base, metric="cosine"), queries)
        elif part == "changes":
            found = measure_changes(base, queries)
        else:
            found = measure_conditions(base, queries)
        print(json.dumps(found, indent=1, ensure_ascii=False), flush=True)
        result[part] = {"environment": environment(), "rounds": ROUNDS[part], "measured": found}
    save(path, result)


if __name__ == "__main__":
    main()
