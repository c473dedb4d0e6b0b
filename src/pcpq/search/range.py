"""Search by range: all vectors whose score passes a bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Ids
from pcpq.search.execute import Asked, find
from pcpq.search.plan import Plan
from pcpq.search.snapshot import Snapshot
from pcpq.segment.segment import Scores

# Results that a search by range looks for at first; as many more each time as it had.
RANGE_START = 128


def find_range(
    snapshot: Snapshot, asked: Asked, plan: Plan, least: float
) -> tuple[NDArray[np.int64], Scores, Ids]:
    """Everything that scores `least` or more among the lists probed: limits, scores and ids as in Faiss.

    Looks for ever more results until the last of them falls short.
    """
    found: list[tuple[Scores, Ids]] = [(np.empty(0), np.empty(0, np.int64))] * len(asked.rows)
    open_queries, k = np.arange(len(asked.rows)), min(RANGE_START, plan.n_allowed)
    while len(open_queries) and k > 0:
        some = Asked(asked.rows[open_queries], asked.unit)
        wider = replace(plan, k=k, rerank=min(max(plan.rerank, 4 * k), plan.n_allowed))
        scores, ids = find(snapshot, some, wider)
        inside = (scores >= least) & (ids >= 0)
        counts = inside.sum(axis=1)
        for row, query in enumerate(open_queries):
            found[query] = (scores[row, : counts[row]], ids[row, : counts[row]])
        if k == plan.n_allowed:
            break
        open_queries, k = open_queries[counts == k], min(2 * k, plan.n_allowed)
    limits = np.concatenate([[0], np.cumsum([len(ids) for _, ids in found])]).astype(np.int64)
    return limits, np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])
