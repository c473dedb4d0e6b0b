"""Measure how many rows must be scanned to reach a recall, by training and ranking of lists.

    python benchmarks/lists.py --data FOLDER

Codes are not used: recall is the share of true neighbours in the probed lists.
Results go to benchmarks/results/lists.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from common import Data, data_folder, default_metric, load, save

from pcpq.experiments.environment import environment
from pcpq.ivf import partition
from pcpq.segment.training import default_lists

RECALLS = (0.92, 0.96, 0.985)
TRAININGS = {"equal weight": 0.0, "crowding": partition.CROWDING}


def rankings(queries: np.ndarray, lists: partition.Partition) -> dict[str, np.ndarray]:
    """Return (n_queries, L) scores of lists: by centroid, by its direction, and by centroid and spread."""
    products = queries @ lists.centroids.T
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    return {
        "center": products,
        "unit center": products / np.linalg.norm(lists.centroids, axis=1),
        "center and spread": products + lengths * lists.spreads,
    }


def rows_scanned(ranks: np.ndarray, homes: np.ndarray, sizes: np.ndarray) -> dict[str, dict[str, float]]:
    """Return the probes and rows scanned for each recall; `homes` are the lists of the true neighbours."""
    order = np.argsort(-ranks, axis=1)
    positions = np.empty_like(order)
    np.put_along_axis(positions, order, np.arange(ranks.shape[1])[None], axis=1)
    needed = np.take_along_axis(positions, homes, axis=1)
    scanned = np.cumsum(sizes[order], axis=1).mean(axis=0)
    answer = {}
    for recall in RECALLS:
        probes = int(np.sort(needed, axis=None)[int(np.ceil(recall * needed.size)) - 1]) + 1
        answer[str(recall)] = {"probes": probes, "rows": round(float(scanned[probes - 1]))}
    return answer


def measure(data: Data, metric: str) -> list[dict[str, Any]]:
    """Return the results of all trainings with all rankings."""
    found = []
    for training, crowding in TRAININGS.items():
        partition.CROWDING = crowding
        n_lists = default_lists(len(data.base))
        lists = partition.fit_partition(data.base, n_lists, metric, np.random.default_rng(0), None)
        homes = lists.assign(data.base)
        sizes = np.bincount(homes, minlength=n_lists)
        fullness = n_lists * float(np.square(sizes / len(data.base)).sum())
        for ranking, ranks in rankings(data.all_queries, lists).items():
            row = {"training": training, "ranking": ranking, "fullness_of_a_rows_list": round(fullness, 3)}
            found.append(row | {"recalls": rows_scanned(ranks, homes[data.all_top], sizes)})
            print(data.name, found[-1], flush=True)
    return found


def main() -> None:
    """Measure all data sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of NAME_base.npy and NAME_query.npy (default: PCPQ_DATA)")
    options = parser.parse_args()
    folder = data_folder(options.data)
    sets = {}
    for name in ("glove", "minilm", "lastfm48k", "npm"):
        data = load(folder, name)
        sets[name] = {"rows": len(data.base), "found": measure(data, default_metric(name))}
    path = Path(__file__).parent / "results" / "lists.json"
    save(path, {"environment": environment(), "recalls": RECALLS, "sets": sets})


if __name__ == "__main__":
    main()
