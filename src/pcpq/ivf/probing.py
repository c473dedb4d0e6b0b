"""Which lists a query probes.

Every query ranks the lists. If all queries probed the same number of them, the number would have to suit those
whose neighbours lie in many lists. So lists get weights, which add up to 1, by the softmax function of their
ranks, and a query probes the lists whose weight reaches a bound that is the same for all queries: few where
some lists are far better than others, many where ranks are alike. docs/design/index.md says what this saves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array
from pcpq.ivf.coarse_ranking import Coarse
from pcpq.ivf.partition import Partition
from pcpq.util.lazy import lazy

Places = NDArray[np.intp]

# Weights are in proportion to e^(rank / t), where t is a temperature times the query's length, but at least so
# much of how far its best rank is above the mean of all; without a temperature it is so much
# (cpp/kernels/rank_lists.h).
LEAST_PART, PART_ALONE = 0.06, 0.12
# Native code takes the mean of as many whole groups of lists as there are.
LANES = 8
# A query probes at most this many times the average number of lists: others must not wait for it.
MOST_TIMES = 8


class Probing(NamedTuple):
    """How many lists are probed."""

    probes: int  # by a query on average ...
    most: int  # ... and at most
    temperature: float = 0.0  # of the weights of lists
    margin: float = -np.inf  # logarithm of the least weight of a list that is probed; -inf: always `most`

    @classmethod
    def exactly(cls, probes: int) -> Probing:
        """Return that every query probes the same number of lists."""
        return cls(probes, probes)

    def native(self) -> dict[str, Any]:
        """Return arguments of native searches."""
        return {"probes": self.most, "temperature": self.temperature, "margin": self.margin}


@dataclass(frozen=True, eq=False)
class RankedLists:
    """The L lists as n queries rank them, as in native code."""

    ranks: Float32Array  # (n, L)
    places: Places  # (n, L)  position of every list, from the best
    lengths: Float32Array  # (n, 1)  of the queries

    @classmethod
    def of(cls, partition: Partition, coarse: Coarse, metric: str, query_rows: Float32Array) -> RankedLists:
        """Rank lists for (n, d) queries in working units."""
        rows = query_rows - coarse.mean if metric == "euclidean" else query_rows
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        ranks = coarse.products(rows) + partition.offsets + lengths * partition.spreads
        places = np.empty(ranks.shape, np.intp)
        np.put_along_axis(places, np.argsort(-ranks, axis=1), np.arange(ranks.shape[1])[None], axis=1)
        return cls(ranks, places, lengths)

    def log_weights(self, temperature: float) -> Float32Array:
        """Return the (n, L) logarithms of the weights of lists."""
        best = self.ranks.max(axis=1, keepdims=True)
        whole = max(self.ranks.shape[1] // LANES, 1) * LANES
        above = best - self.ranks[:, :whole].mean(axis=1, keepdims=True)
        part = np.float32(LEAST_PART if temperature else PART_ALONE)
        steps = np.maximum(np.float32(temperature) * self.lengths, part * above)
        scaled: Float32Array = (self.ranks - best) / np.maximum(steps, np.finfo(np.float32).tiny)
        scaled -= np.log(power_of_e(scaled).sum(axis=1, keepdims=True))
        return scaled

    @lazy
    def scale(self) -> float:
        """The standard deviation of the ranks of a query of length 1."""
        lengths = np.maximum(self.lengths[:, 0], np.finfo(np.float32).tiny)
        return float(np.median(self.ranks.std(axis=1) / lengths))

    def margins(self, temperature: float, probes: tuple[int, ...]) -> tuple[float, ...]:
        """Return margins with which queries probe these numbers of lists on average; the last is all lists."""
        n, n_lists = self.ranks.shape
        best_first = -np.sort(-self.log_weights(temperature), axis=1)
        best_first[:, 0] = np.inf  # the best list is always probed
        found = [0.0]
        for each in probes:
            allowed = best_first[:, : min(MOST_TIMES * each, n_lists)].ravel()
            last = min(n * each, allowed.size) - 1
            found.append(min(found[-1], float(-np.partition(-allowed, last)[last])))
        return tuple(found[1:])

    def probed_from(self, temperature: float, probes: tuple[int, ...], margins: tuple[float, ...]) -> Places:
        """Return (n, L) numbers below those of `probes` with which a list is probed; the last is all lists."""
        # The first of `probes` whose margin a weight reaches, and the first that allows so many lists.
        reached = np.searchsorted(-np.array(margins[:-1], np.float32), -self.log_weights(temperature))
        allowed = np.searchsorted(MOST_TIMES * np.array(probes[:-1]), self.places, side="right")
        first = np.where(self.places == 0, 0, np.maximum(reached, allowed))
        return np.array((0, *probes[:-1]), np.intp)[first]


def power_of_e(x: Float32Array) -> Float32Array:
    """Return e^x about as native code does, from the bits of a float, for x up to 80."""
    bits = np.rint(np.maximum(x, np.float32(-80)) * np.float32(12102203) + np.float32(1064866805))
    power: Float32Array = bits.astype(np.int32).view(np.float32)
    return power
