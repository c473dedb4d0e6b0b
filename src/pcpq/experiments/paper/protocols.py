"""Recall1@N under three protocols.

The paper does not state how many lists its queries probe, nor whether candidates are reranked; the published
code of the authors reranks. The protocols are: codes only, all lists; codes only, probed lists; and the best N
by code of each probed list reranked by exact inner products, then the best N of these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pcpq.experiments.paper.experiment import Experiment

PROTOCOLS = {
    "all": "codes only, all lists",
    "probed": "codes only, lists probed",
    "reranked": "each probed list's best N re-ranked exactly",
}
RECALL_AT = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)


@dataclass(frozen=True)
class Ranks:
    """Ranks of the true nearest row of every query."""

    places: NDArray[np.intp]  # (n_queries,) rank of its list by <q, centroid>
    in_list: NDArray[np.int32]  # (n_queries,) rows of its list that are ranked before it
    by_probes: NDArray[np.int64]  # (n_queries, L) rows of the first 1, 2, ... lists that are ranked before it

    @classmethod
    def of(cls, experiment: Experiment, ahead: NDArray[np.int32]) -> Ranks:
        """Return the ranks from (n_queries, L) counts of rows that are ranked before the true nearest row."""
        numbers = np.arange(len(ahead))
        order = np.argsort(-(experiment.queries @ experiment.centroids.T), axis=1, kind="stable")
        places = np.empty_like(order)
        np.put_along_axis(places, order, np.arange(experiment.n_lists)[None], axis=1)
        by_probes = np.cumsum(np.take_along_axis(ahead, order, axis=1), axis=1, dtype=np.int64)
        lists = experiment.top_lists
        return cls(places[numbers, lists], ahead[numbers, lists], by_probes)

    def ceiling(self, probes: int) -> float:
        """Return the share of queries whose true nearest row is in the probed lists."""
        return float((self.places < probes).mean())

    def recall(self, protocol: str, at: int, probes: int) -> float:
        """Return Recall1@N of a protocol."""
        if protocol == "all":
            return float((self.by_probes[:, -1] < at).mean())
        ahead = self.by_probes[:, probes - 1] if protocol == "probed" else self.in_list
        return float(((self.places < probes) & (ahead < at)).mean())

    def curves(self, probes: int) -> dict[str, list[float]]:
        """Return Recall1@N for every N and protocol."""
        return {
            protocol: [round(self.recall(protocol, at, probes), 4) for at in RECALL_AT]
            for protocol in PROTOCOLS
        }


def probes_for(ranks: Ranks, ceiling: float) -> int:
    """Return the number of probes whose ceiling is nearest to the given one."""
    n_lists = ranks.by_probes.shape[1]
    reached = np.bincount(ranks.places, minlength=n_lists).cumsum() / len(ranks.places)
    return int(np.argmin(np.abs(reached - ceiling))) + 1


def swept_probes(n_lists: int) -> list[int]:
    """Return the numbers of probes of a sweep: 1, 2, 3, 4, 6, 8, 11, ... up to all lists."""
    steps = {round(2 ** (step / 2)) for step in range(2 * n_lists.bit_length() + 1)}
    return sorted({min(step, n_lists) for step in steps})
