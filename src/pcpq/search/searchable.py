"""The interface of a searched index that planning and execution need, local or sharded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, Ids
from pcpq.ivf.probing import Probing
from pcpq.search.recall_check import CheckedSample
from pcpq.search.recall_curve import Choice, RecallCurve
from pcpq.search.request import SearchRequest, Settings
from pcpq.segment.segment import Allowed, Scores
from pcpq.segment.trained import Trained


class SearchPlan(NamedTuple):
    """A search with all settings chosen and all filters evaluated."""

    k: int
    probing: Probing
    rerank: int
    allowed: tuple[Allowed, ...]  # rows of every part
    n_allowed: int
    threads: int | None
    sample: CheckedSample | None = None  # queries whose recall is checked; None: unknown or filtered
    exact: bool = False  # all allowed rows are compared

    @property
    def probes(self) -> int:
        """The number of lists that queries probe on average."""
        return self.probing.probes


@dataclass(frozen=True)
class PlanCache:
    """Cached plans and choices of settings, by request."""

    plans: dict[Settings, SearchPlan] = field(default_factory=dict)
    # By k, rerank, target_recall and the rounded share of rows that filters allow.
    choices: dict[tuple[int, int | None, float | None, float], Choice] = field(default_factory=dict)


@dataclass(frozen=True)
class ScanTrace:
    """Counts and times of a search for one query."""

    counts: Ids  # (1, 3) lists probed, rows scanned, candidates reranked
    seconds: NDArray[np.float64]  # (4,) ranking of lists, lookup tables, scan, reranking

    def add_exact(self, rows: int, seconds: float) -> None:
        """Add an exact search, which probes no lists and reranks all rows."""
        self.counts[:, 2] += rows
        self.seconds[3] += seconds


class Searchable(Protocol):
    """A snapshot of an index, or the same generation on many shards."""

    @property
    def trained(self) -> Trained:
        """The trained lists and codebooks."""

    @property
    def recall(self) -> RecallCurve | None:
        """The measured recall; None if it was not measured."""

    @property
    def plan_cache(self) -> PlanCache:
        """Cached plans."""

    def __len__(self) -> int:
        """Return the number of vectors."""

    def allowed_rows(self, request: SearchRequest) -> tuple[Allowed, ...]:
        """Return the rows of every part that a request allows."""

    def scan(
        self, queries: Float32Array, plan: SearchPlan, trace: ScanTrace | None = None
    ) -> tuple[Scores, Ids]:
        """Return (n, k) scores, larger is better, and ids of the best rows among the lists probed."""
