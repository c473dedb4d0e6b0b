"""What plans and searches need of the vectors they search, wherever these are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, Ids
from pcpq.search.recall_curve import Choice, RecallCurve
from pcpq.search.request import SearchRequest
from pcpq.search.result import Result
from pcpq.segment.segment import Allowed, Scores
from pcpq.segment.trained import Trained


@dataclass(frozen=True)
class SearchPlan:
    """What a search will do: the settings are chosen, the filters evaluated."""

    k: int
    probes: int
    rerank: int
    allowed: tuple[Allowed, ...]  # of every part
    n_allowed: int
    threads: int | None


@dataclass(frozen=True)
class PlanCache:
    """Plans and choices that were made before, by what was asked."""

    plans: dict[tuple[Any, ...], SearchPlan] = field(default_factory=dict)
    choices: dict[tuple[Any, ...], Choice] = field(default_factory=dict)


@dataclass(frozen=True)
class ScanTrace:
    """What a search for one query did."""

    counts: Ids  # (1, 3) lists probed, rows scanned, candidates re-ranked
    seconds: NDArray[np.float64]  # (4,) of ranking lists, lookup tables, scan, re-ranking


class Searchable(Protocol):
    """A snapshot of an index, or the same generation on many shards."""

    @property
    def trained(self) -> Trained:
        """What was trained: lists and codebooks."""

    @property
    def recall(self) -> RecallCurve | None:
        """The measured recall, if it was measured."""

    @property
    def plan_cache(self) -> PlanCache:
        """Plans that were made before."""

    def __len__(self) -> int:
        """The number of vectors."""

    def allowed_rows(self, request: SearchRequest) -> tuple[Allowed, ...]:
        """The rows of every part that a request allows."""

    def scan(
        self, queries: Float32Array, plan: SearchPlan, trace: ScanTrace | None = None
    ) -> tuple[Scores, Ids]:
        """(n, k) scores, larger is better, and ids of the best rows among the lists probed."""

    def scan_single(self, query: Any, plan: SearchPlan) -> Result | None:
        """The result of one plain query, from end to end in native code; None if it must go the long way."""
