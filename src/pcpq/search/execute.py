"""Execution of search plans: the same code for a single query and many, for one index and for shards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.foreign_arrays import as_array
from pcpq.search.plan import plan_search, probing_for
from pcpq.search.queries import prepare_queries, returned_scores
from pcpq.search.request import SearchRequest
from pcpq.search.result import Result
from pcpq.search.searchable import ScanTrace, Searchable, SearchPlan
from pcpq.search.top_k import nothing
from pcpq.segment.segment import Scores

# Largest size of results if k exceeds the number of vectors to find; each takes a score and an id.
MOST_FILLED_BYTES = 1 << 31
BYTES_PER_RESULT = 16


def search(searched: Searchable, queries: Any, request: SearchRequest) -> Result:
    """Return the k best vectors for (n, d) queries, or for one (d,) query; ids are integers."""
    queries = query_array(queries)
    prepared = prepare_queries(searched.trained, queries)
    plan = plan_search(searched, request)
    scores, ids = execute(searched, prepared.rows, plan)
    check_recall(searched, queries, plan)
    returned = returned_scores(searched.trained, scores, prepared.unit)
    metric = searched.trained.metric
    return Result(returned[0], ids[0], metric) if queries.ndim == 1 else Result(returned, ids, metric)


def check_recall(searched: Searchable, queries: NDArray[Any], plan: SearchPlan) -> None:
    """Check the recall of some queries that were searched, until it is known; warn if it is low."""
    sample = plan.sample
    if sample is None or not sample.open:
        return
    some = sample.draw(1 if queries.ndim == 1 else len(queries))
    if some:
        rows = prepare_queries(searched.trained, np.atleast_2d(queries)[some]).rows
        n_lists = len(searched.trained.partition)
        try:
            sample.observe(lambda queries, plan: execute(searched, queries, plan)[0], n_lists, rows, plan)
        except Warning:  # the user wants warnings as errors
            raise
        except Exception:  # the search itself was answered; the wider one read more, such as a damaged page
            sample.open = False


def query_array(queries: Any) -> NDArray[Any]:
    """Return queries as an array; an empty list is a batch of no queries, not a query of no dimensions."""
    return (
        np.empty((0, 0)) if isinstance(queries, (list, tuple)) and not queries else as_array(queries, "queries")
    )


def execute(
    searched: Searchable, queries: Float32Array, plan: SearchPlan, trace: ScanTrace | None = None
) -> tuple[Scores, Ids]:
    """Return (n, k) scores, larger is better, and ids; -inf and -1 where there are fewer than k.

    Queries that find fewer results than there are allowed vectors are searched again with twice as many probes
    each time: lists may be small, and a filter may allow few of their rows.
    """
    k = min(plan.k, plan.n_allowed)
    refuse_filling(plan.k, plan.n_allowed, len(queries))
    if k == 0 or len(queries) == 0:
        return nothing(len(queries), plan.k)
    wider = plan if k == plan.k and plan.rerank >= k else plan._replace(k=k, rerank=max(plan.rerank, k))
    scores, ids = searched.scan(queries, wider, trace)
    while wider.probes < len(searched.trained.partition):
        short = np.flatnonzero(ids[:, -1] < 0)
        if len(short) == 0:
            break
        wider = wider._replace(probing=probing_for(searched, 2 * wider.probes))
        scores[short], ids[short] = searched.scan(queries[short], wider, trace)
    if k < plan.k:
        missing = ((0, 0), (0, plan.k - k))
        scores = np.pad(scores, missing, constant_values=-np.inf)
        ids = np.pad(ids, missing, constant_values=-1)
    return scores, ids


def refuse_filling(k: int, n_allowed: int, n_queries: int) -> None:
    """Raise a ValueError if results would take gigabytes because k exceeds the number of vectors to find."""
    size = k * n_queries * BYTES_PER_RESULT
    if k > n_allowed and size > MOST_FILLED_BYTES:
        raise ValueError(
            f"k is {k}, but there are {n_allowed} vectors to find: results for {n_queries} queries would take"
            f" {size} bytes; ask for at most {n_allowed}"
        )
