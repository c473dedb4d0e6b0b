"""What an index holds at one moment: segments with their tombstones.

A snapshot never changes: a writer makes a new one, and searches go on in the one they began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.errors import FormatError
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import as_words, integer_ids
from pcpq.search.filters import allowed_rows
from pcpq.search.recall_curve import RecallCurve
from pcpq.search.request import SearchRequest
from pcpq.search.result import Result
from pcpq.search.searchable import PlanCache, ScanTrace, SearchPlan
from pcpq.search.top_k import best_of
from pcpq.search.where import WhereLimits, matching
from pcpq.segment.attributes import same_rows
from pcpq.segment.part import Part
from pcpq.segment.segment import Allowed, Scores, Segment
from pcpq.segment.trained import Trained
from pcpq.util.lazy import once


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All parts of an index."""

    trained: Trained
    parts: tuple[Part, ...] = ()
    recall: RecallCurve | None = None  # what searches find, as far as it was measured

    def __len__(self) -> int:
        return sum(part.count for part in self.parts)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made when it is needed."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @once
    def plan_cache(self) -> PlanCache:
        """Plans that were made before."""
        return PlanCache()

    @property
    def only_segment(self) -> Segment | None:
        """The segment, where there is one and nothing was removed from it."""
        one = len(self.parts) == 1 and self.parts[0].live is None
        return self.parts[0].segment if one else None

    def allowed_rows(self, request: SearchRequest) -> tuple[Allowed, ...]:
        """The rows of every part that a request allows."""
        if not request.filtered:
            return tuple(part.everything for part in self.parts)
        where, limits = request.where, request.where_limits
        condition = None if where is None else lambda rows: self.matching(where, rows, limits)
        return allowed_rows(self.parts, request.filter, request.exclude, condition)

    def scan(
        self, queries: Float32Array, plan: SearchPlan, trace: ScanTrace | None = None
    ) -> tuple[Scores, Ids]:
        """(n, k) scores, larger is better, and ids of the best rows of all parts among the lists probed."""
        found = []
        for part, some in zip(self.parts, plan.allowed, strict=True):
            if some.count == 0:
                continue
            counts = None if trace is None else np.zeros_like(trace.counts)
            found.append(
                part.segment.search(
                    queries,
                    k=min(plan.k, some.count),
                    probes=plan.probes,
                    rerank=min(plan.rerank, some.count),
                    allowed=some,
                    threads=plan.threads,
                    out_counts=counts,
                    out_seconds=None if trace is None else trace.seconds,
                )
            )
            if trace is not None and counts is not None:
                trace.counts[:] += counts
        return best_of(found, len(queries), plan.k)

    def scan_single(self, query: Any, plan: SearchPlan) -> Result | None:
        """The result of one plain query, from end to end in native code; None if it must go the long way."""
        segment = self.only_segment
        if segment is None or type(query) is not np.ndarray or query.ndim != 1 or plan.k > plan.n_allowed:
            return None
        found = segment.search_single(query, plan.k, plan.probes, plan.rerank)
        return None if found is None else Result(*found)

    def find(self, ids: Any) -> list[NDArray[np.intp]]:
        """For every part, the row of every id, -1 where it is not there; ids are all numbers or all words."""
        if not self.parts:
            return []
        words = as_words(ids) if self.of_words and np.size(ids) else None
        numbers = np.atleast_1d(integer_ids(ids)) if words is None else np.empty(0, np.int64)
        found = []
        for part in self.parts:
            rows = part.segment.find(numbers) if words is None else part.segment.find_words(words)
            found.append(np.where(part.has(rows), rows, -1))
        return found

    @property
    def of_words(self) -> bool:
        """Whether ids are words."""
        return bool(self.parts) and self.parts[0].segment.names is not None

    def words(self, numbers: Ids) -> NDArray[np.object_]:
        """Words of numbers as searches return them, None where there is none."""
        words = np.full(numbers.size, None, object)
        flat = numbers.ravel()
        for part in self.parts:
            rows = part.segment.find(flat)
            there = np.flatnonzero(rows >= 0)
            words[there] = part.segment.words(rows[there])
        return words.reshape(numbers.shape)

    def matching(
        self, where: str, rows: Sequence[NDArray[np.bool_] | None], limits: WhereLimits | None = None
    ) -> list[NDArray[np.intp]]:
        """For every part, the rows that an SQL condition on attributes holds for, of some or, for None, all.

        Nothing else is looked at: what a condition says of other rows could be seen in its errors and its time.
        """
        if not self.parts:
            return []
        segments = [part.segment for part in self.parts]
        tables: list[Any] = [segment.attributes and segment.attributes.table for segment in segments]
        some = [
            np.arange(len(segment)) if chosen is None else np.flatnonzero(chosen[segment.by_id])
            for segment, chosen in zip(segments, rows, strict=True)
        ]

        def rows_of(columns: list[str]) -> Any:
            found = []
            for table, places, chosen in zip(tables, some, rows, strict=True):
                there = [] if table is None else [name for name in columns if name in table.column_names]
                own = None if table is None or not there else table.select(there)
                found.append((own if own is None or chosen is None else own.take(places), len(places)))
            return joined_attributes(found)

        schema = joined_attributes([(table and table.slice(0, 0), 0) for table in tables]).schema
        held = matching(schema, where, limits, rows_of)
        ends = np.cumsum([len(places) for places in some])
        cuts = np.searchsorted(held, ends)
        return [
            segment.by_id[places[here - (end - len(places))]].astype(np.intp)
            for segment, places, end, here in zip(segments, some, ends, np.split(held, cuts[:-1]), strict=True)
        ]

    def including(self, segment: Segment) -> Snapshot:
        """With another segment."""
        return replace(self, parts=(*self.parts, Part.whole(segment)))

    def without(self, ids: Any) -> Snapshot:
        """Less some ids; those that are not there do not matter, nor do those given twice."""
        return self.without_rows([np.unique(rows[rows >= 0]) for rows in self.find(ids)])

    def without_rows(self, rows: Sequence[NDArray[np.intp]]) -> Snapshot:
        """Less some rows of every part, which are there, each once."""
        if not any(len(some) for some in rows):
            return self
        parts = [part.without(some) for part, some in zip(self.parts, rows, strict=True)]
        return replace(self, parts=tuple(part for part in parts if part.count))

    @property
    def names(self) -> set[str]:
        """Of all segments."""
        return {part.segment.name for part in self.parts}

    def replaced(self, old: Sequence[Part], merged: Segment | None, trained: Trained | None = None) -> Snapshot:
        """With one segment for parts that it was made of a while ago: what went since, goes again."""
        segments = {part.segment.name: part for part in old}
        now = {part.segment.name: part for part in self.parts}
        rest = tuple(part for part in self.parts if part.segment.name not in segments)
        after = self if trained is None else Snapshot(trained)
        if merged is None:
            return replace(after, parts=rest)
        whole = Part.whole(merged)
        for key, part in segments.items():
            gone = part.rows_gone(now.get(key))
            if len(gone):
                whole = whole.without(merged.find(part.segment.ids[gone]))
        return replace(after, parts=(*rest, whole) if whole.count else rest)


def joined_attributes(tables: Sequence[tuple[Any, int]]) -> Any:
    """Tables of parts as one; a ValueError if no part has any."""
    if all(table is None for table, _ in tables):
        raise ValueError("the index has no attributes: add(..., attributes=table) brings them")
    try:
        return same_rows(tables)
    except ValueError as error:  # which additions were checked for, but files were not
        raise FormatError(str(error)) from error
