"""What a search is asked for, settled against what there is to find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pcpq.arrays import Float32Array, Ids, integer_ids
from pcpq.quantizers.options import whole_number
from pcpq.scan import Asked, Snapshot

# So few vectors are all judged: an approximation would save nothing.
FEW = 2000
# Results that a search by range looks for at first; as many more each time as it had.
RANGE_START = 128
# Plans for single queries that a snapshot remembers.
MOST_PLANS = 1000
# Found once: a search for one query notices.
FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)


class Result(NamedTuple):
    """Best first; (n, k), or (k,) for a single query."""

    scores: Float32Array
    ids: Ids

    @property
    def distances(self) -> Float32Array:
        """The scores of a euclidean search: squared distances, smaller is better."""
        return self.scores


class Bitmap:
    """Ids that may be found, prepared: the second search with it does not look them up again."""

    def __init__(self, ids: Any) -> None:
        self.ids = np.unique(integer_ids(ids))
        self._found: WeakKeyDictionary[Snapshot, tuple[int, NDArray[np.uint32]]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, snapshot: Snapshot) -> tuple[int, NDArray[np.uint32]]:
        """How many rows of a snapshot are allowed, and its mask."""
        if snapshot not in self._found:
            self._found[snapshot] = snapshot.mask(np.isin(snapshot.ids, self.ids))
        return self._found[snapshot]


@dataclass(frozen=True)
class Plan:
    """How many results, lists and candidates; which rows may be found (None: all)."""

    k: int
    probes: int
    rerank: int
    allowed: NDArray[np.uint32] | None
    n_allowed: int
    threads: int | None


def make_plan(
    snapshot: Snapshot,
    k: int,
    probes: int | None,
    rerank: int | None,
    filter: Any,
    exclude: Any,
    threads: int | None,
) -> Plan:
    """Defaults filled in, and everything judged where little may be found."""
    k = whole_number("k", k, 1, 1 << 30)
    n_lists, n_allowed, allowed = len(snapshot.trained.partition), len(snapshot), None
    given = probes if probes is not None else max(1, n_lists // 20)
    probes = whole_number("probes", given, 1, 1 << 30)
    wanted = whole_number("rerank", rerank if rerank is not None else max(100, 10 * k), 1, 1 << 34)
    few = len(snapshot) <= FEW and rerank is None
    if filter is not None or exclude is not None:
        n_allowed, allowed = allowed_rows(snapshot, filter, exclude)
        few = few or n_allowed <= FEW
    if few:
        probes, wanted = n_lists, n_allowed
    return Plan(k, probes, min(max(wanted, k), n_allowed), allowed, n_allowed, threads)


def allowed_rows(snapshot: Snapshot, filter: Any, exclude: Any) -> tuple[int, NDArray[np.uint32]]:
    """How many rows a filter and an exclusion leave, and their mask."""
    if isinstance(filter, Bitmap) and exclude is None:
        return filter.of(snapshot)
    found = np.ones(len(snapshot), bool)
    if filter is not None:
        found = np.isin(snapshot.ids, filter.ids if isinstance(filter, Bitmap) else np.asarray(filter))
    if exclude is not None:
        found &= ~np.isin(snapshot.ids, np.asarray(exclude))
    return snapshot.mask(found)


def find_one(snapshot: Snapshot, query: Any, k: int, probes: int | None, rerank: int | None) -> Result | None:
    """The k best for one query that needs no care; None for all others.

    What `find` does, in a few microseconds less: a search for one query takes some tens.
    """
    if type(query) is not np.ndarray or type(k) is not int:
        return None
    if (probes is not None and type(probes) is not int) or (rerank is not None and type(rerank) is not int):
        return None
    plan = snapshot.plans.get((k, probes, rerank))
    if plan is None:
        plan = make_plan(snapshot, k, probes, rerank, None, None, 1)
        if len(snapshot.plans) < MOST_PLANS:
            snapshot.plans[k, probes, rerank] = plan
    if k > plan.n_allowed:
        return None
    scores, ids = np.empty(k, FLOAT32), np.empty(k, INT64)
    try:
        found = snapshot.searcher.search_one(query, plan.probes, plan.rerank, ids, scores)
    except TypeError:  # not a row of float32 numbers side by side
        return None
    return Result(scores, ids) if found else None


def find(
    snapshot: Snapshot,
    asked: Asked,
    plan: Plan,
    counts: Ids | None = None,
    seconds: NDArray[np.float64] | None = None,
) -> tuple[Float32Array, Ids]:
    """(n, k) scores, larger is better, and ids; `counts` and `seconds` as in Snapshot.search, for one query.

    Queries that come back short are asked again, in twice as many lists each time: lists may be small, and a
    filter leaves little of them.
    """
    k, probes = min(plan.k, plan.n_allowed), plan.probes
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


def find_range(
    snapshot: Snapshot, asked: Asked, plan: Plan, least: float
) -> tuple[NDArray[np.int64], Float32Array, Ids]:
    """Everything that scores `least` or more among the lists probed: limits, scores and ids as in Faiss.

    Looks for ever more results until the last of them falls short.
    """
    found: list[tuple[Float32Array, Ids]] = [(np.empty(0, np.float32), np.empty(0, np.int64))] * len(asked.rows)
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


def nothing(n: int, k: int) -> tuple[Float32Array, Ids]:
    """What is returned where nothing can be found."""
    return np.full((n, k), -np.inf, np.float32), np.full((n, k), -1, np.int64)
