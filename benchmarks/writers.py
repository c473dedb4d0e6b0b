"""How long removals, commits and searches take while another thread adds many vectors.

    python benchmarks/writers.py

An index of made-up vectors is stored and opened for writing. One thread adds vectors; another removes ids,
commits and searches until the addition returns. The first search measures recall, because it has
a target_recall. The same calls are timed when nothing is added. The result is benchmarks/results/writers.json:
medians over rounds, each with an index and vectors of its own, and 95 % intervals by bootstrap.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from common import save, summary

import pcpq
from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
STORED, ADDED, DIMENSIONS = 50_000, 400_000, 96
ROUNDS = 7
ALONE = 20  # calls when nothing is added


def timed(work: Callable[[], Any]) -> float:
    """Seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def some_vectors(count: int, seed: int) -> np.ndarray:
    """Vectors around a thousand centroids."""
    generator = np.random.default_rng(seed)
    centroids = generator.normal(size=(1000, DIMENSIONS)).astype(np.float32)
    noise = generator.normal(size=(count, DIMENSIONS)).astype(np.float32)
    return centroids[generator.integers(1000, size=count)] + 0.5 * noise


def one_round(path: Path, seed: int) -> dict[str, float]:
    """Seconds of each call, the longest and the median, beside an addition and alone."""
    vectors = some_vectors(STORED + ADDED, seed)
    index = pcpq.Index(metric="dot", n_lists=1000, seed=seed).fit(vectors[:STORED])
    index.add(vectors[:STORED])
    index.save(path)
    queries = vectors[:10]
    with pcpq.open(path, mode="a") as writer:
        calls: dict[str, Callable[[int], Any]] = {
            "remove": lambda step: writer.remove([step]),
            "commit": lambda step: writer.commit(),
            "search": lambda step: writer.search(queries, target_recall=0.9, threads=1),
        }
        seconds: list[float] = []
        addition = threading.Thread(
            target=lambda: seconds.append(timed(lambda: writer.add(vectors[STORED:], threads=1)))
        )
        addition.start()
        first = timed(lambda: calls["search"](0))
        beside = times_of(calls, while_alive(addition))
        addition.join()
        alone = times_of(calls, range(STORED - ALONE, STORED))
    found = {"addition": seconds[0], "first search": first}
    for name in calls:
        found[f"{name}, median"] = float(np.median(beside[name]))
        found[f"{name}, longest"] = max(beside[name])
        found[f"{name} alone, median"] = float(np.median(alone[name]))
    return found


def while_alive(thread: threading.Thread) -> Iterator[int]:
    """Numbers from 0, at least one, until a thread ends."""
    for step in count():
        yield step
        if not thread.is_alive():
            return


def times_of(calls: dict[str, Callable[[int], Any]], steps: Iterable[int]) -> dict[str, list[float]]:
    """Seconds of every call, one after the other in every step."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for step in steps:
        for name, call in calls.items():
            spent[name].append(timed(lambda call=call, step=step: call(step)))
    return spent


def main() -> None:
    """Run all rounds."""
    rounds = []
    for seed in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(one_round(Path(folder) / "index", seed))
        print({name: round(value, 4) for name, value in rounds[-1].items()}, flush=True)
    found = {name: summary([one[name] for one in rounds], 5) for name in rounds[0]}
    data = {"stored": STORED, "added": ADDED, "d": DIMENSIONS, "seeds": list(range(ROUNDS))}
    save(RESULTS / "writers.json", {"environment": environment(), "data": data, "seconds": found})


if __name__ == "__main__":
    main()
