"""Measure the time to open and change a stored index of a million vectors: GloVe, and vectors like it.

    python benchmarks/storing.py --data FOLDER
    python benchmarks/storing.py --data FOLDER --rows 50000     a quick try

Opening is timed in new processes, with the files in the page cache. Additions of 1,000 vectors are compared
with the encoding of the same vectors; then removals, commits, and searches before and after compaction are
timed.
Results go to benchmarks/results/storing.json; with --rows the name contains the size.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder, load, save
from growth import grown

import pcpq
from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
ROWS = 1_000_000
BATCH = 1000
ROUNDS = 9
OPEN = """
import sys, time, numpy, pcpq
start = time.perf_counter()
index = pcpq.open(sys.argv[1])
opened = time.perf_counter()
index.search(numpy.ones(int(sys.argv[2]), numpy.float32))
print(opened - start, time.perf_counter() - opened)
"""


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median(values: list[float]) -> float:
    """Return the median, rounded to microseconds."""
    return round(float(np.median(values)), 6)


def opening(path: Path, dimensions: int) -> dict[str, float]:
    """Return the median times to open an index and to search it first, in new processes."""
    times = []
    for _ in range(ROUNDS):
        command = [sys.executable, "-c", OPEN, str(path), str(dimensions)]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        times.append([float(part) for part in found])
    opened, first = np.array(times).T
    return {"open": median(list(opened)), "first_search": median(list(first))}


def size_of(path: Path) -> int:
    """Return the total size of all files in a directory, in bytes."""
    return sum(file.stat().st_size for file in path.iterdir())


def changing(path: Path, new: np.ndarray, queries: np.ndarray) -> dict[str, Any]:
    """Return the times of additions, removals, commits and searches."""
    parts: dict[str, list[float]] = {name: [] for name in ("encode", "add", "commit", "remove", "bytes")}
    searches = {}

    def search(name: str) -> None:
        index.search(queries, threads=1)
        times = [timed(lambda: index.search(queries, threads=1)) for _ in range(ROUNDS)]
        searches[name] = round(min(times) / len(queries) * 1e6, 2)

    with pcpq.open(path, mode="a") as index:
        trained = index._state.snapshot.trained
        trained.rows(new[:BATCH], 0, None)
        search("one segment")
        for number in range(ROUNDS):
            some, before = new[number * BATCH : (number + 1) * BATCH], size_of(path)
            parts["encode"].append(timed(lambda some=some: trained.rows(some, 0, None)))
            parts["add"].append(timed(lambda some=some: index.add(some)))
            parts["commit"].append(timed(index.commit))
            if number == 0:
                parts["bytes"].append((size_of(path) - before) / BATCH)
        removed = np.random.default_rng(0).permutation(len(index))[: ROUNDS * 100].reshape(ROUNDS, 100)
        parts["remove"] = [timed(lambda some=some: index.remove(some)) for some in removed]
        search(f"{index.stats()['segments']} segments, rows removed")
        compact = timed(index.compact)
        commit = timed(index.commit)
        search("compacted")
    medians = {name: median(values) for name, values in parts.items()}
    return medians | {"compact": round(compact, 3), "commit_all": round(commit, 3), "search_us": searches}


def main() -> None:
    """Build, save, open and change an index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--rows", type=int, help="other than a million")
    options = parser.parse_args()
    n = options.rows or ROWS
    data = load(data_folder(options.data), "glove")
    vectors = grown(data.base, n + ROUNDS * BATCH, np.random.default_rng(0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        index = pcpq.build(vectors[:n], metric="cosine")
        saved = timed(lambda: index.save(path))
        result = {
            "environment": environment(),
            "data": {"name": "glove", "n": n, "d": vectors.shape[1], "bytes": size_of(path)},
            "save": round(saved, 3),
            **opening(path, vectors.shape[1]),
            "batch": BATCH,
            **changing(path, vectors[n:], data.queries),
        }
    save(RESULTS / (f"storing_{n}rows.json" if options.rows else "storing.json"), result)


if __name__ == "__main__":
    main()
