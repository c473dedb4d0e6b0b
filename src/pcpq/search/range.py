"""Search by range: all vectors whose score passes a bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, Ids
from pcpq.search.execute import execute, query_array
from pcpq.search.plan import plan_range
from pcpq.search.queries import prepare_queries, returned_scores
from pcpq.search.request import SearchRequest
from pcpq.search.searchable import Searchable, SearchPlan
from pcpq.segment.segment import Scores

# Number of results of the first round; it doubles each time.
RANGE_START = 128
# Candidates that are reranked per result.
CANDIDATES_PER_RESULT = 4


def range_bound(metric: str, min_score: float | None, max_distance: float | None) -> float:
    """Return the least score of a result, from the bound that fits the metric."""
    wanted, other = ("max_distance", "min_score") if metric == "euclidean" else ("min_score", "max_distance")
    bounds = {"min_score": min_score, "max_distance": max_distance}
    bound = bounds[wanted]
    if bound is None or bounds[other] is not None:
        raise ValueError(f"a search by range in a {metric} index takes {wanted}, and not {other}")
    return -float(bound) if metric == "euclidean" else float(bound)


def search_range(
    searched: Searchable, queries: Any, request: SearchRequest, bound: float
) -> tuple[NDArray[np.int64], Float32Array, Ids]:
    """Return limits, scores and ids, as in Faiss, of all vectors that score at least `bound`."""
    prepared = prepare_queries(searched.trained, query_array(queries))
    plan = plan_range(searched, request)
    least = bound / (searched.trained.unit * prepared.unit)
    n = len(prepared.rows)
    limits, scores, ids = execute_range(searched, prepared.rows, plan, np.broadcast_to(least, (n, 1)))
    unit = prepared.unit
    if not isinstance(unit, float):
        unit = np.repeat(unit[:, 0], np.diff(limits))
    return limits, returned_scores(searched.trained, scores, unit), ids


def execute_range(
    searched: Searchable, queries: Float32Array, plan: SearchPlan, least: NDArray[np.float64]
) -> tuple[NDArray[np.int64], Scores, Ids]:
    """Return all rows that score (n, 1) `least` or more: k doubles until a query's last result is below."""
    found: list[tuple[Scores, Ids]] = [(np.empty(0), np.empty(0, np.int64))] * len(queries)
    open_queries, k = np.arange(len(queries)), min(RANGE_START, plan.n_allowed)
    while len(open_queries) and k > 0:
        wider = plan._replace(k=k, rerank=min(max(plan.rerank, CANDIDATES_PER_RESULT * k), plan.n_allowed))
        scores, ids = execute(searched, queries[open_queries], wider)
        inside = (scores >= least[open_queries]) & (ids >= 0)
        counts = inside.sum(axis=1)
        for row, query in enumerate(open_queries):
            found[query] = (scores[row, : counts[row]], ids[row, : counts[row]])
        if k == plan.n_allowed:
            break
        open_queries, k = open_queries[counts == k], min(2 * k, plan.n_allowed)
    limits = np.concatenate([[0], np.cumsum([len(ids) for _, ids in found])]).astype(np.int64)
    if not found:
        return limits, np.empty(0), np.empty(0, np.int64)
    return limits, np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])
