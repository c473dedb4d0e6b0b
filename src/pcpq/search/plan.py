"""What a search will do: probes, candidates and the rows that may be found."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

from pcpq.search.filters import allowed_rows
from pcpq.search.recall_curve import FEW, RESULTS, USUAL_TARGET, Choice, RecallCurve, check_target
from pcpq.search.snapshot import Snapshot
from pcpq.search.where import WhereLimits
from pcpq.segment.segment import Allowed
from pcpq.segment.trained import Trained
from pcpq.util.validation import whole_number

# Plans for single queries that a snapshot remembers.
MOST_PLANS = 1000


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
