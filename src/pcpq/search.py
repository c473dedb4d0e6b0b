"""What a search is asked for, settled against what there is to find."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pcpq.arrays import (
    Float32Array,
    Ids,
    as_vectors,
    handy,
    integer_ids,
    typical_unit,
    unit_rows,
    working_rows,
)
from pcpq.foreign import as_array
from pcpq.names import as_words, kind_of
from pcpq.quantizers.options import whole_number
from pcpq.recall import FEW, RESULTS, USUAL_TARGET, Choice, RecallCurve, check_target
from pcpq.scan import Allowed, Asked, Scores, Segment
from pcpq.snapshot import Snapshot, rows_in
from pcpq.trained import Trained
from pcpq.where import WhereLimits

# Results that a search by range looks for at first; as many more each time as it had.
RANGE_START = 128
# What results may take where most of them are only there to fill up k.
MOST_FILLED_BYTES = 1 << 31
# Plans for single queries that a snapshot remembers.
MOST_PLANS = 1000
# Found once: a search for one query notices.
FLOAT32, FLOAT64, INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)


class Result(NamedTuple):
    """Results of a search, best first: arrays of shape (n, k), or (k,) for a single query."""

    scores: Float32Array
    ids: NDArray[Any]  # int64, -1 where there is none; or str, None where there is none

    @property
    def distances(self) -> Float32Array:
        """The scores of a search by Euclidean distance: squared distances, where smaller is better."""
        return self.scores


class Bitmap:
    """A set of ids for `filter`, prepared for repeated use: later searches do not look the ids up again."""

    def __init__(self, ids: Any) -> None:
        words = kind_of(ids) == "str"
        self.ids: NDArray[Any] = np.unique(np.array(as_words(ids), object) if words else integer_ids(ids))
        self._found: WeakKeyDictionary[Segment, NDArray[np.uint32]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, segment: Segment) -> NDArray[np.uint32]:
        """The mask of a segment."""
        if segment not in self._found:
            self._found[segment] = segment.blocks.mask(rows_with(segment, self.ids))
        return self._found[segment]


def rows_with(segment: Segment, ids: NDArray[Any]) -> NDArray[np.bool_]:
    """(n,) which rows of a segment have one of these ids."""
    if segment.names is None:
        if ids.size and ids.dtype.kind not in "iu":
            raise ValueError(f"a filter by {kind_of(ids)} does not suit an index whose ids are int")
        return np.isin(segment.checked_ids, ids)
    rows = segment.find_words(as_words(ids) if ids.size else [])
    return chosen_rows(segment, rows[rows >= 0])


def chosen_rows(segment: Segment, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """(n,) which rows of a segment are these."""
    chosen = np.zeros(len(segment), bool)
    chosen[rows] = True
    return chosen


@dataclass(frozen=True)
class Plan:
    """How many results, lists and candidates; which rows may be found."""

    k: int
    probes: int
    rerank: int
    allowed: tuple[Allowed, ...]  # of every part of the snapshot
    n_allowed: int
    threads: int | None


class Searched(Protocol):
    """What plans are made for: a snapshot, wherever its parts are."""

    @property
    def trained(self) -> Trained:
        """Lists."""

    @property
    def recall(self) -> RecallCurve | None:
        """What searches find."""

    @property
    def choices(self) -> dict[Any, Choice]:
        """What was chosen for a recall before."""

    def __len__(self) -> int: ...


def make_plan(
    snapshot: Snapshot,
    k: int,
    probes: int | None,
    rerank: int | None,
    target_recall: float | None,
    filter: Any,
    exclude: Any,
    where: str | None,
    threads: int | None,
    where_limits: WhereLimits | None = None,
) -> Plan:
    """How a snapshot is searched, less what filters refuse."""
    filtered = filter is not None or exclude is not None or where is not None
    if filtered:
        allowed = allowed_rows(snapshot, filter, exclude, where, where_limits)
    else:
        allowed = tuple(part.everything for part in snapshot.parts)
    return plan_for(snapshot, k, probes, rerank, target_recall, allowed, filtered, threads)


def plan_for(
    searched: Searched,
    k: int,
    probes: int | None,
    rerank: int | None,
    target_recall: float | None,
    allowed: tuple[Allowed, ...],
    filtered: bool,
    threads: int | None,
) -> Plan:
    """Defaults filled in, and everything judged where little may be found."""
    k = whole_number("k", k, 1, 1 << 30)
    if probes is not None:
        probes = whole_number("probes", probes, 1, 1 << 30)
    if rerank is not None:
        rerank = whole_number("rerank", rerank, 1, 1 << 34)
    check_target(target_recall, probes)
    n = len(searched)
    n_allowed = sum(some.count for some in allowed) if filtered else n
    if (n <= FEW and probes is None) or (filtered and n_allowed <= FEW):
        probes = len(searched.trained.partition)
        rerank = n_allowed if rerank is None else rerank
    elif probes is None:
        probes, rerank = settings_for(searched, k, rerank, target_recall, n_allowed / max(n, 1))
    wanted = rerank if rerank is not None else max(100, 10 * k)
    return Plan(k, probes, min(max(wanted, k), n_allowed), allowed, n_allowed, threads)


def settings_for(
    searched: Searched, k: int, rerank: int | None, target: float | None, share: float
) -> tuple[int, int | None]:
    """Probes and candidates for a recall, by what was measured; a twentieth of the lists where nothing was."""
    curve = searched.recall
    if curve is None:
        return max(1, len(searched.trained.partition) // 20), rerank
    asked = (k, rerank, target, round(share, 3))
    known = searched.choices.get(asked)
    if known is not None:
        return known.probes, known.rerank
    aim = USUAL_TARGET if target is None else target
    choice = curve.choose(k, aim, share=share, rerank=rerank, strict=target is not None)
    if len(searched.choices) < MOST_PLANS:
        searched.choices[asked] = choice
    if target is not None and choice.recall < target:
        keep = searched.trained.keep
        judged_by = "codes alone" if keep is None else f"vectors kept as {keep}"
        reached = f"about {choice.recall:.3f} is reached"
        warn_user(f"a recall of {target} at k={k} is out of reach with {judged_by}; {reached}")
    return choice.probes, choice.rerank


def range_bound(metric: str, min_score: float | None, max_distance: float | None) -> float:
    """What results must score at least, by the bound that suits the metric."""
    wanted, other = ("max_distance", "min_score") if metric == "euclidean" else ("min_score", "max_distance")
    bounds = {"min_score": min_score, "max_distance": max_distance}
    bound = bounds[wanted]
    if bound is None or bounds[other] is not None:
        raise ValueError(f"a search by range in a {metric} index takes {wanted}, and not {other}")
    return -float(bound) if metric == "euclidean" else float(bound)


def range_plan(
    snapshot: Snapshot,
    probes: int | None,
    filter: Any,
    exclude: Any,
    where: str | None,
    threads: int | None,
    where_limits: WhereLimits | None = None,
) -> Plan:
    """How a snapshot is searched by range."""
    lists = range_probes(snapshot, probes)
    return make_plan(snapshot, 1, lists, None, None, filter, exclude, where, threads, where_limits)


def range_probes(searched: Searched, probes: int | None) -> int | None:
    """For a search by range: who knows how many lie in it, so lists are probed as for many results."""
    if probes is None and len(searched) > FEW:
        probes, _ = settings_for(searched, RESULTS[-1], None, None, 1.0)
    return probes


def warn_user(message: str) -> None:
    """A warning that names the line of the program that called us, however deep we are."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("pcpq."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def allowed_rows(
    snapshot: Snapshot, filter: Any, exclude: Any, where: str | None, where_limits: WhereLimits | None = None
) -> tuple[Allowed, ...]:
    """What a filter and an exclusion leave of every part, and of that, what a condition holds for."""
    wanted = filter if isinstance(filter, Bitmap) or filter is None else Bitmap(filter)
    refused = exclude if isinstance(exclude, Bitmap) or exclude is None else Bitmap(exclude)
    found = []
    for part in snapshot.parts:
        some = part.everything if wanted is None else part.only(wanted.of(part.segment))
        if refused is not None:
            mask = part.segment.every_row if some.mask is None else some.mask
            left = part.only(mask & ~refused.of(part.segment))
            some = replace(left, share=some.share * left.count / max(some.count, 1))
        found.append(some)
    if where is None:
        return tuple(found)
    parts = list(zip(snapshot.parts, found, strict=True))
    rows = [None if some.mask is None else rows_in(part.segment.blocks, some.mask) for part, some in parts]
    holds = snapshot.matching(where, rows, where_limits)
    return tuple(
        part.only(part.segment.blocks.mask(chosen_rows(part.segment, held)))
        for part, held in zip(snapshot.parts, holds, strict=True)
    )


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


def explain(snapshot: Snapshot, query: Any, k: int, **options: Any) -> dict[str, Any]:
    """What Index.explain says."""
    known = ("probes", "rerank", "target_recall", "filter", "exclude", "where", "where_limits")
    for name in options:
        if name not in known:
            raise ValueError(f"explain has no option {name!r}")
    asked = ask(snapshot.trained, query)
    counts, seconds = np.zeros((1, 3), np.int64), np.zeros(4)
    given: dict[str, Any] = dict.fromkeys(known) | options
    plan = make_plan(snapshot, k, **given, threads=1)
    plan = replace(plan, k=max(min(plan.k, plan.n_allowed), 1))  # results are not shown
    find(snapshot, Asked(asked.rows[:1], asked.unit), plan, counts, seconds)
    probed, scanned, judged = (int(count) for count in counts[0])
    stages = ("rank lists", "tables", "scan", "judge")
    return {
        "segments": len(snapshot.parts),
        "lists": len(snapshot.trained.partition),
        "lists_probed": probed,
        "rows": len(snapshot),
        "rows_scanned": scanned,
        "candidates_judged": judged,
        "judged_by": snapshot.trained.keep or "codes",
        "seconds": dict(zip(stages, seconds.tolist(), strict=True)),
    }


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


def nothing(n: int, k: int) -> tuple[Scores, Ids]:
    """What is returned where nothing can be found."""
    return np.full((n, k), -np.inf), np.full((n, k), -1, np.int64)
