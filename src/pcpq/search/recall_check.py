"""A check of `target_recall` by the queries that are really asked.

Recall is measured with vectors of the index. Queries that are unlike them, such as questions in an index of
passages, find fewer of the best vectors with the same settings. So a sample of the queries is searched again
with many more probes, which finds nearly all of the best. If too many were missed, a warning says so, once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pcpq.errors import RecallWarning
from pcpq.io.arrays import Float32Array
from pcpq.util.warning import warn_user

if TYPE_CHECKING:
    from pcpq.search.searchable import SearchPlan

# One of this many queries is checked, until this many different ones were.
EVERY, MOST_CHECKED = 4, 512
# Probes and candidates of the wider search, as multiples, and rows that it reads at least: it should find
# nearly all of the best vectors, wherever they are.
WIDER_PROBES, WIDER_RERANK, LEAST_ROWS = 16, 4, 1 << 18
# Numbers of checked queries after which a verdict is given.
VERDICTS = (32, 64, 128, 256, MOST_CHECKED)
# The recall that may be missing, and standard errors of a verdict. Recall of queries that are like the vectors
# is at most 0.01 below the target.
TOLERANCE, SURE = 0.015, 2.5
# Checked queries of all settings together: each costs time.
MOST_IN_ALL = 8 * MOST_CHECKED
# Number of settings that are remembered.
MOST_SETTINGS = 1000

Settings = tuple[int, int, int, float]  # k, probes, rerank and the expected recall
# Searches queries in working units by a plan, and returns (n, k) scores.
Search = Callable[[Float32Array, "SearchPlan"], NDArray[np.float64]]


@dataclass
class Sample:
    """Checked queries of one setting."""

    known: set[int] = field(default_factory=set)  # hashes of checked queries: the same one says nothing new
    recalls: list[float] = field(default_factory=list)


class RecallCheck:
    """Checks for one recall curve, shared by all snapshots that have it.

    Threads may share it: at worst some query is counted twice or not at all.

    Parameters
    ----------
    most_results : largest k for which recall was measured
    """

    def __init__(self, most_results: int) -> None:
        self.warned = False
        self._most_results, self._checked = most_results, 0
        self._samples: dict[Settings, Sample] = {}
        # Not every fourth one: queries may alternate.
        self._random = random.Random(0)

    def sample(self, plan: SearchPlan, n: int) -> list[int]:
        """Return which of the next n queries to check."""
        if plan.expected is None or self.warned or self._checked >= MOST_IN_ALL:
            return []
        settings = settings_of(plan)
        sample = self._samples.get(settings)
        if sample is None:
            if len(self._samples) >= MOST_SETTINGS:
                return []
            sample = self._samples.setdefault(settings, Sample())
        room = min(MOST_CHECKED - len(sample.recalls), MOST_IN_ALL - self._checked)
        if room <= 0:
            return []
        if n == 1:
            return [0] if self._random.random() < 1 / EVERY else []
        return sorted(self._random.sample(range(n), min(-(-n // EVERY), room)))

    def observe(self, search: Search, n_lists: int, queries: Float32Array, plan: SearchPlan) -> None:
        """Check (n, d) queries in working units, and warn if recall is lower than expected."""
        expected, sample = plan.expected, self._samples[settings_of(plan)]
        fresh = {hash(query.tobytes()): row for row, query in enumerate(queries)}
        rows = [row for key, row in fresh.items() if key not in sample.known]
        if not rows or expected is None:
            return
        sample.known.update(fresh)
        before = len(sample.recalls)
        sample.recalls.extend(observed_recalls(search, queries[rows], plan, wider(plan, n_lists)).tolist())
        self._checked += len(sample.recalls) - before
        # Not after every query: by chance, one of many verdicts would be wrong.
        for count in VERDICTS:
            if before < count <= len(sample.recalls) and is_low(sample.recalls[:count], expected):
                self._warn(plan.k, float(np.mean(sample.recalls)), expected)

    def _warn(self, k: int, recall: float, expected: float) -> None:
        if self.warned:
            return
        self.warned = True
        told = f"searches find about {recall:.2f} of the {k} best vectors, not {expected:.2f}"
        reason = (
            "queries are unlike the vectors, by which recall was measured; call tune(queries) with a sample of"
            " queries"
        )
        if k > self._most_results:
            reason = (
                f"recall was measured for up to {self._most_results} results, so tune cannot help; set probes"
            )
        warn_user(f"{told}: {reason}", RecallWarning)


def settings_of(plan: SearchPlan) -> Settings:
    """Return the settings of a plan whose recall is expected."""
    return plan.k, plan.probes, plan.rerank, plan.expected or 0.0


def wider(plan: SearchPlan, n_lists: int) -> SearchPlan:
    """Return a plan that finds nearly all of the best vectors."""
    enough = n_lists * LEAST_ROWS // max(plan.n_allowed, 1)
    return plan._replace(
        probes=min(max(WIDER_PROBES * plan.probes, enough), n_lists),
        rerank=min(WIDER_RERANK * plan.rerank, plan.n_allowed),
    )


def is_low(recalls: list[float], expected: float) -> bool:
    """Return whether the mean of recalls is certainly lower than expected."""
    return bool(np.mean(recalls) + SURE * np.std(recalls) / len(recalls) ** 0.5 < expected - TOLERANCE)


def observed_recalls(
    search: Search, queries: Float32Array, plan: SearchPlan, wide: SearchPlan
) -> NDArray[np.float64]:
    """Return the share of the best results of a wide search that a plan finds, for every query.

    Results are compared by their scores, because others of the same score are as good.
    """
    found, best = search(queries, plan), search(queries, wide)
    least = np.maximum(best[:, -1:], np.finfo(np.float64).min)  # -inf: the wide search found fewer than k
    recalls: NDArray[np.float64] = (found >= least).sum(axis=1) / np.maximum((best >= least).sum(axis=1), 1)
    return np.minimum(recalls, 1.0)
