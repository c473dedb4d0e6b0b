"""Recall of queries that are unlike the vectors: what is reached without `tune`, and whether a warning says so.

    python benchmarks/unlike.py --data DIR

Every index is built without queries and searched with target_recall, first with 2,000 vectors that were held
out of it ("held out"), then with the queries of its users. "copies" is a set made here: every vector of
minilm five times over, with a little noise. The result is benchmarks/results/unlike.json: recall with its
standard error, the recall that a warning told, if there was one, and the seconds of CPU time of the first
2,000 queries, with the check, and of later ones.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import best_rows, data_folder, default_metric, save

import pcpq
from pcpq.experiments.environment import environment

RESULTS = Path(__file__).parent / "results"
SETS = ("minilm", "npm", "lastfm48k", "glove", "copies")
TARGETS = (0.8, 0.9, 0.95, 0.98, 0.99)
HELD_OUT = 2000
COPIES, NOISE = 5, 0.02
# Recall that may be missing without a warning, and below which a warning is no false alarm.
ALLOWED = 0.03
SEED = 0


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return base vectors, queries and the metric of a set."""
    source = "minilm" if name == "copies" else name
    base, queries = (np.load(folder / f"{source}_{part}.npy").astype(np.float32) for part in ("base", "query"))
    if name == "copies":
        generator = np.random.default_rng(SEED)
        noise = [NOISE * generator.standard_normal(base.shape).astype(np.float32) for _ in range(COPIES)]
        base = np.concatenate([base + one for one in noise])
    return base, queries, default_metric(source)


def exact(base: np.ndarray, queries: np.ndarray, metric: str, k: int) -> np.ndarray:
    """Return the true neighbours."""
    if metric == "cosine":
        base = base / np.linalg.norm(base, axis=1, keepdims=True)
    parts = [queries[start : start + 100] @ base.T for start in range(0, len(queries), 100)]
    return np.concatenate([best_rows(part, k) for part in parts])


def told_recall(caught: list[Any]) -> float | None:
    """Return the recall that a warning told; None if there was no warning."""
    messages = [str(one.message) for one in caught if one.category is pcpq.RecallWarning]
    found = [message for message in messages if message.startswith("searches find about ")]
    return float(found[0].split()[3]) if found else None


def measure(stored: Path, base: np.ndarray, queries: np.ndarray, metric: str) -> Iterator[dict[str, Any]]:
    """Return the recall of queries for all k and targets; each time the index is opened anew."""
    for k in (10, 100):
        truth = exact(base, queries, metric, k)
        for target in TARGETS:
            with pcpq.open(stored) as index, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                index.search(queries[:100], k=k, probes=20)  # files are read
                seconds = []
                for _ in range(3):
                    start = time.process_time()
                    found = index.search(queries, k=k, target_recall=target).ids
                    seconds.append(time.process_time() - start)
            recalls = (found[:, :, None] == truth[:, None, :]).any(axis=1).mean(axis=1)
            yield {
                "k": k,
                "target": target,
                "recall": round(float(recalls.mean()), 4),
                "standard_error": round(float(recalls.std() / len(recalls) ** 0.5), 4),
                "told": told_recall(caught),
                "first_seconds": round(seconds[0], 4),
                "later_seconds": round(min(seconds[1:]), 4),
            }


def main() -> None:
    """Measure all sets and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="the folder of data sets; default: PCPQ_DATA")
    folder = data_folder(parser.parse_args().data)
    rows = []
    for name in SETS:
        base, queries, metric = load(folder, name)
        held = np.random.default_rng(SEED).permutation(len(base))[:HELD_OUT]
        rest = np.delete(base, held, axis=0)
        with tempfile.TemporaryDirectory() as directory:
            stored = Path(directory) / "index"
            pcpq.build(rest, metric=metric).save(stored)
            for kind, asked in (("held out", base[held]), ("users", queries)):
                for row in measure(stored, rest, asked, metric):
                    rows.append({"set": name, "queries": kind, "count": len(asked)} | row)
                    print(rows[-1], flush=True)
    low = [row for row in rows if row["recall"] < row["target"] - ALLOWED]
    warned = [row for row in rows if row["told"] is not None]
    result = {
        "environment": environment(),
        "seed": SEED,
        "allowed": ALLOWED,
        "searches": len(rows),
        "low": len(low),
        "low_without_warning": sum(row["told"] is None for row in low),
        "warnings": len(warned),
        "false_alarms": sum(row["recall"] >= row["target"] - 0.01 for row in warned),
        "rows": rows,
    }
    save(RESULTS / "unlike.json", result)


if __name__ == "__main__":
    main()
