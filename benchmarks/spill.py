"""How many rows a query must scan if every vector is in one list, and if it is in two.

    python benchmarks/spill.py --data FOLDER [--sets text256 glove minilm] [--rows 100000]

The second list of a vector x is the one that minimizes |x - c|^2 + weight <x - c, r>^2, where r is the unit
residual of x in its first list (SOAR): a query that ranks the first list low may rank the second one high.
With weight 0 it is the second nearest list. Only lists are compared: those are counted which have to be probed
to meet 90, 95 and 98 % of the true ten neighbours, and their rows, each vector once for every list it is in.
The result is benchmarks/results/spill.json; intervals are bootstrapped over queries.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder, default_metric, load, save

from pcpq.experiments.environment import environment
from pcpq.ivf.partition import Partition, fit_partition

RESULTS = Path(__file__).parent / "results"
FACTORS = (2, 4, 8)  # lists, times the square root of the number of rows
WEIGHTS = (None, 0.0, 1.0, 2.0)  # None: one list
SHARES = (0.90, 0.95, 0.98)
SEED, RESAMPLES, ROWS_TOGETHER = 0, 1000, 4000


def second_lists(base: np.ndarray, lists: Partition, first: np.ndarray, weight: float) -> np.ndarray:
    """Return the (n,) second list of every row."""
    centroids, second = lists.centroids, np.empty(len(base), np.int32)
    half_squares = 0.5 * np.square(centroids).sum(1)
    for start in range(0, len(base), ROWS_TOGETHER):
        rows, own = base[start : start + ROWS_TOGETHER], first[start : start + ROWS_TOGETHER]
        residuals = rows - centroids[own]
        lengths = np.linalg.norm(residuals, axis=1, keepdims=True)
        directions = residuals / np.where(lengths > 0, lengths, 1)
        parallel = np.einsum("ij,ij->i", rows, directions)[:, None] - directions @ centroids.T
        loss = half_squares - rows @ centroids.T + 0.5 * weight * np.square(parallel)
        loss[np.arange(len(rows)), own] = np.inf
        second[start : start + ROWS_TOGETHER] = loss.argmin(axis=1)
    return second


def scanned(needed: np.ndarray, sizes: np.ndarray, generator: np.random.Generator) -> list[dict[str, Any]]:
    """Return probes and rows for every share of neighbours, with intervals of the rows.

    `needed` (n, 10) is the number of lists to probe for each neighbour, `sizes` (n, L) the rows of the lists in
    the order in which each query probes them.
    """
    totals = np.cumsum(sizes, axis=1)

    def rows(some: np.ndarray, share: float) -> tuple[int, float]:
        probes = int(np.ceil(np.quantile(needed[some], share)))
        return probes, float(totals[some, probes - 1].mean())

    every, found = np.arange(len(needed)), []
    for share in SHARES:
        probes, mean = rows(every, share)
        drawn = [rows(generator.integers(len(every), size=len(every)), share)[1] for _ in range(RESAMPLES)]
        interval = [round(float(end)) for end in np.quantile(drawn, [0.025, 0.975])]
        found.append({"share": share, "probes": probes, "rows": round(mean), "interval": interval})
    return found


def measure(folder: Path, name: str, rows: int | None) -> dict[str, Any]:
    """Return the results of one data set."""
    data = load(folder, name, rows=rows)
    n, found = len(data.base), []
    for factor in FACTORS:
        n_lists = round(factor * n**0.5)
        lists = fit_partition(data.base, n_lists, default_metric(name), np.random.default_rng(SEED), None)
        first = lists.assign(data.base)
        lengths = np.linalg.norm(data.all_queries, axis=1, keepdims=True)
        ranks = data.all_queries @ lists.centered.T + lists.offsets + lengths * lists.spreads
        order = np.argsort(-ranks, axis=1)
        places = np.empty_like(order)
        np.put_along_axis(places, order, np.arange(1, n_lists + 1)[None], axis=1)
        for weight in WEIGHTS:
            sizes = np.bincount(first, minlength=n_lists)
            needed = np.take_along_axis(places, first[data.all_top], axis=1)
            if weight is not None:
                second = second_lists(data.base, lists, first, weight)
                sizes = sizes + np.bincount(second, minlength=n_lists)
                needed = np.minimum(needed, np.take_along_axis(places, second[data.all_top], axis=1))
            rows_found = scanned(needed, sizes[order], np.random.default_rng(SEED))
            found.append({"lists": n_lists, "weight": weight, "scanned": rows_found})
            print(name, found[-1], flush=True)
    return {"name": name, "n": n, "d": data.base.shape[1], "results": found}


def main() -> None:
    """Measure all sets and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    parser.add_argument("--sets", nargs="+", default=["text256", "glove", "minilm"])
    parser.add_argument("--rows", type=int, default=100_000, help="most rows of a set")
    options = parser.parse_args()
    sets = [measure(data_folder(options.data), name, options.rows) for name in options.sets]
    save(RESULTS / "spill.json", {"environment": environment(), "seed": SEED, "sets": sets})


if __name__ == "__main__":
    main()
