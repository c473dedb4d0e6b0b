"""Recall1@N under three protocols: who the true answer has to get past.

The paper does not say how many lists its queries probe, nor that its recall counts codes only; the authors'
published code re-ranks. So: codes only over all lists; codes only over the lists probed; and each probed
list's best N by codes ranked again by exact inner products, then the best N of all.
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
    """Where every query's true answer stands."""

    places: NDArray[np.intp]  # (n_queries,) of its list among the lists, best first by <q, center>
    in_list: NDArray[np.int32]  # (n_queries,) rows of its own list ahead of it
    by_probes: NDArray[np.int64]  # (n_queries, L) rows ahead of it in the first 1, 2, ... lists

    @classmethod
    def of(cls, experiment: Experiment, ahead: NDArray[np.int32]) -> Ranks:
        """From (n_queries, L) rows of each list that are ahead of the true answer."""
        numbers = np.arange(len(ahead))
        order = np.argsort(-(experiment.queries @ experiment.centers.T), axis=1, kind="stable")
        places = np.empty_like(order)
        np.put_along_axis(places, order, np.arange(experiment.n_lists)[None], axis=1)
        by_probes = np.cumsum(np.take_along_axis(ahead, order, axis=1), axis=1, dtype=np.int64)
        lists = experiment.top_lists
        return cls(places[numbers, lists], ahead[numbers, lists], by_probes)

    def ceiling(self, probes: int) -> float:
        """The share of queries whose true answer is in the lists probed."""
        return float((self.places < probes).mean())

    def recall(self, protocol: str, at: int, probes: int) -> float:
        """Recall1@N."""
        if protocol == "all":
            return float((self.by_probes[:, -1] < at).mean())
        ahead = self.by_probes[:, probes - 1] if protocol == "probed" else self.in_list
        return float(((self.places < probes) & (ahead < at)).mean())

    def curves(self, probes: int) -> dict[str, list[float]]:
        """Recall1@N for every N and protocol."""
        return {
            protocol: [round(self.recall(protocol, at, probes), 4) for at in RECALL_AT]
            for protocol in PROTOCOLS
        }


def probes_for(ranks: Ranks, ceiling: float) -> int:
    """The number of lists whose ceiling comes nearest to the one given."""
    n_lists = ranks.by_probes.shape[1]
    reached = np.bincount(ranks.places, minlength=n_lists).cumsum() / len(ranks.places)
    return int(np.argmin(np.abs(reached - ceiling))) + 1


def swept_probes(n_lists: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, ... up to all."""
    steps = {round(2 ** (step / 2)) for step in range(2 * n_lists.bit_length() + 1)}
    return sorted({min(step, n_lists) for step in steps})
