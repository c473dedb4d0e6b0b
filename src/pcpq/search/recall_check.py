"""A check of `target_recall` by the queries that are really asked.

Recall is measured with vectors of the index. Queries that are unlike them, such as questions in an index of
passages, find fewer of the best vectors with the same settings. So a sample of the queries is searched again
with many more probes, which finds nearly all of the best. If too many were missed, a warning says so, once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pcpq.errors import RecallWarning
from pcpq.io.arrays import Float32Array
from pcpq.ivf.probing import Probing
from pcpq.util.warning import warn_user

if TYPE_CHECKING:
    from pcpq.search.searchable import SearchPlan

# One of this many queries is checked, until this many different ones were.
EVERY, MOST_CHECKED = 4, 512
# Probes and candidates of the wider search, as multiples, and rows that it reads at least: it should find
# nearly all of the best vectors, wherever they are.
WIDER_PROBES, WIDER_RERANK, LEAST_ROWS = 16, 4, 1 << 18
# Numbers of checked queries after which recall is compared with the expected one.
STEPS = (32, 64, 128, 256, MOST_CHECKED)
# Recall is low if it is certainly this much lower than expected: that of queries like the vectors is up to 0.01
# lower. It is fine, and the check of its setting ends, if it is certainly not this much lower.
LOW, FINE = 0.015, 0.03
# Standard errors of these two answers.
SURE_LOW, SURE_FINE = 2.5, 2.0
# Checked queries of all settings together: each costs time.
MOST_IN_ALL = 8 * MOST_CHECKED
# Number of settings that are remembered.
MOST_SETTINGS = 1000

Settings = tuple[int, int, int, float]  # k, probes, rerank and the expected recall
# Searches queries in working units by a plan, and returns (n, k) scores.
Search = Callable[[Float32Array, "SearchPlan"], NDArray[np.float64]]


class RecallCheck:
    """Checks for one recall curve, shared by all snapshots that have it.

    Threads may share it: at worst some query is counted twice or not at all.

    Parameters
    ----------
    most_results : largest k for which recall was measured
    """

    def __init__(self, most_results: int) -> None:
        self.warned, self.checked = False, 0
        self._most_results = most_results
        self._samples: dict[Settings, CheckedSample] = {}
        # Not every fourth one: queries may alternate.
        self.random = random.Random(0)

    def sample(self, k: int, probes: int, rerank: int, expected: float) -> CheckedSample | None:
        """Return the checked queries of a setting; None if too many settings were used already."""
        settings = k, probes, rerank, expected
        if settings not in self._samples and len(self._samples) >= MOST_SETTINGS:
            return None
        return self._samples.setdefault(settings, CheckedSample(self, expected))

    def room(self) -> int:
        """Return how many more queries may be checked."""
        return 0 if self.warned else MOST_IN_ALL - self.checked

    def warn(self, k: int, recall: float, expected: float) -> None:
        """Warn of a low recall, once."""
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


class CheckedSample:
    """Checked queries of one setting."""

    def __init__(self, check: RecallCheck, expected: float) -> None:
        self.open = True  # False: recall is known well enough, and searches need not ask again
        self.recalls: list[float] = []
        self._check, self._expected = check, expected
        self._known: set[int] = set()  # hashes of checked queries: the same one says nothing new

    def draw(self, n: int) -> list[int]:
        """Return which of the next n queries to check."""
        room = min(MOST_CHECKED - len(self.recalls), self._check.room())
        if room <= 0:
            self.open = False
            return []
        if n == 1:
            return [0] if self._check.random.random() < 1 / EVERY else []
        return sorted(self._check.random.sample(range(n), min(-(-n // EVERY), room)))

    def observe(self, search: Search, n_lists: int, queries: Float32Array, plan: SearchPlan) -> None:
        """Check (n, d) queries in working units, and warn if recall is lower than expected."""
        fresh = {hash(query.tobytes()): row for row, query in enumerate(queries)}
        rows = [row for key, row in fresh.items() if key not in self._known]
        self._known.update(fresh)
        while rows and self.open:
            # Up to the next comparison. Not one after every query: by chance, one of many would be wrong.
            done = len(self.recalls)
            missing = next((step for step in STEPS if step > done), done + 1) - done
            some, rows = rows[:missing], rows[missing:]
            self.recalls.extend(observed_recalls(search, queries[some], plan, wider(plan, n_lists)).tolist())
            self._check.checked += len(some)
            if len(self.recalls) in STEPS:
                self._compare(plan.k)

    def _compare(self, k: int) -> None:
        """End the check if recall is known to be as expected, or to be lower; warn of the latter."""
        recall, error = float(np.mean(self.recalls)), float(np.std(self.recalls)) / len(self.recalls) ** 0.5
        if recall + SURE_LOW * error < self._expected - LOW:
            self.open = False
            self._check.warn(k, recall, self._expected)
        elif recall - SURE_FINE * error > self._expected - FINE:
            self.open = False


def wider(plan: SearchPlan, n_lists: int) -> SearchPlan:
    """Return a plan that finds nearly all of the best vectors."""
    enough = n_lists * LEAST_ROWS // max(plan.n_allowed, 1)
    return plan._replace(
        probing=Probing.exactly(min(max(WIDER_PROBES * plan.probes, enough), n_lists)),
        rerank=min(WIDER_RERANK * plan.rerank, plan.n_allowed),
    )


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
