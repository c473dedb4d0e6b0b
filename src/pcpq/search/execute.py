"""What a search is asked for, settled against what there is to find."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, Ids, as_vectors, handy, typical_unit, unit_rows, working_rows
from pcpq.io.foreign_arrays import as_array
from pcpq.search.plan import MOST_PLANS, Plan, make_plan
from pcpq.search.result import Result
from pcpq.search.snapshot import Snapshot
from pcpq.segment.segment import Scores
from pcpq.segment.trained import Trained

# What results may take where most of them are only there to fill up k.
MOST_FILLED_BYTES = 1 << 31
# Found once: a search for one query notices.
FLOAT32, FLOAT64, INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)


def ask(trained: Trained, queries: Any) -> Asked:
    """Queries as searches have them, (n, d) or one of (d,)."""
    queries = as_array(queries, "queries")
    queries = as_vectors(queries[None] if queries.ndim == 1 else queries, "queries")
    if queries.shape[1] != trained.dimensions:
        raise ValueError(f"queries have {queries.shape[1]} dimensions, the index has {trained.dimensions}")
    if trained.metric == "cosine":
        return Asked(unit_rows(queries, "queries", 0), trained.query_unit)
    if trained.query_unit == 1.0 and handy(queries):
        return Asked(queries.astype(np.float32, copy=False), 1.0)
    unit = trained.query_unit if trained.euclidean else typical_unit(queries, "queries")
    return Asked(working_rows(queries, unit, "queries"), unit)


def as_returned(trained: Trained, exact: Scores, unit: float) -> Float32Array:
    """Scores in the user's units; squared distances where the metric is one."""
    scores = exact.astype(np.float32)
    if trained.euclidean:
        scores = np.maximum(-scores, 0)
    if trained.unit * unit != 1.0:
        scores = scores * np.float32(trained.unit) * np.float32(unit)
    return scores


def find_one(
    snapshot: Snapshot, query: Any, k: int, probes: int | None, rerank: int | None, target: float | None
) -> Result | None:
    """The k best for one query that needs no care; None for all others.

    What `find` does, in a few microseconds less: a search for one query takes some tens.
    """
    if type(query) is not np.ndarray or query.ndim != 1 or type(k) is not int:
        return None
    if (probes is not None and type(probes) is not int) or (rerank is not None and type(rerank) is not int):
        return None
    if target is not None and type(target) is not float:
        return None
    plan = snapshot.plans.get((k, probes, rerank, target))
    if plan is None:
        plan = make_plan(snapshot, k, probes, rerank, target, None, None, None, 1)
        if len(snapshot.plans) < MOST_PLANS:
            snapshot.plans[k, probes, rerank, target] = plan
    segment = snapshot.only_segment
    if k > plan.n_allowed or segment is None:
        return None
    scores, ids = np.empty(k, FLOAT32), np.empty(k, INT64)
    try:
        found = segment.searcher.search_one(query, plan.probes, plan.rerank, ids, scores)
    except TypeError:  # not a row of float32 numbers side by side
        return None
    return Result(scores, ids) if found else None


def find(
    snapshot: Snapshot,
    asked: Asked,
    plan: Plan,
    counts: Ids | None = None,
    seconds: NDArray[np.float64] | None = None,
) -> tuple[Scores, Ids]:
    """(n, k) scores, larger is better, and ids; `counts` and `seconds` as in Snapshot.search, for one query.

    Queries that come back short are asked again, in twice as many lists each time: lists may be small, and a
    filter leaves little of them.
    """
    k, probes = min(plan.k, plan.n_allowed), plan.probes
    refuse_filling(plan.k, plan.n_allowed, len(asked.rows))
    if k == 0:
        return nothing(len(asked.rows), plan.k)
    fixed = (max(plan.rerank, k), plan.allowed, plan.threads, counts, seconds)
    scores, ids = snapshot.search(asked.rows, k, probes, *fixed)
    while probes < len(snapshot.trained.partition):
        short = np.flatnonzero(ids[:, -1] < 0)
        if len(short) == 0:
            break
        probes *= 2
        scores[short], ids[short] = snapshot.search(asked.rows[short], k, probes, *fixed)
    if k < plan.k:
        missing = ((0, 0), (0, plan.k - k))
        scores = np.pad(scores, missing, constant_values=-np.inf)
        ids = np.pad(ids, missing, constant_values=-1)
    return scores, ids


def refuse_filling(k: int, n_allowed: int, n_queries: int) -> None:
    """A ValueError if results for k would be gigabytes of nothing: a score and an id for each."""
    size = k * n_queries * (FLOAT64.itemsize + INT64.itemsize)
    if k > n_allowed and size > MOST_FILLED_BYTES:
        raise ValueError(
            f"k is {k}, but there are {n_allowed} vectors to find: results for {n_queries} queries would take"
            f" {size} bytes; ask for at most {n_allowed}"
        )


def nothing(n: int, k: int) -> tuple[Scores, Ids]:
    """What is returned where nothing can be found."""
    return np.full((n, k), -np.inf), np.full((n, k), -1, np.int64)


class Asked(NamedTuple):
    """Queries in working units."""

    rows: Float32Array
    unit: float
