"""A snapshot of an index: its segments with their tombstones.

A snapshot never changes: a writer makes a new one, and running searches keep the one they began with.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.errors import FormatError
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import as_string_ids, integer_ids
from pcpq.search.exact import search_exactly
from pcpq.search.filters import Bitmap, ConditionCache, allowed_rows, bitmap_of_rows
from pcpq.search.recall_curve import RecallCurve
from pcpq.search.request import SearchRequest
from pcpq.search.result import Result
from pcpq.search.searchable import PlanCache, ScanTrace, SearchPlan
from pcpq.search.top_k import best_of
from pcpq.search.where import WhereLimits, check_condition, matching, without_dictionaries
from pcpq.segment.attributes import same_rows
from pcpq.segment.part import Part
from pcpq.segment.segment import Allowed, Scores, Segment
from pcpq.segment.trained import Trained
from pcpq.util.lazy import lazy

# Made and looked up once: a search for one query takes a few microseconds.
FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)
empty, ndarray = np.empty, np.ndarray


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The segments of an index with their tombstones, and its measured recall."""

    trained: Trained
    parts: tuple[Part, ...] = ()
    recall: RecallCurve | None = None  # None: not measured

    def __len__(self) -> int:
        return sum(part.count for part in self.parts)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without lazy attributes."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @lazy
    def plan_cache(self) -> PlanCache:
        """Cached plans."""
        return PlanCache()

    @lazy
    def segments(self) -> _core.Segments:
        """All segments, for single queries in native code."""
        segments = _core.Segments()
        for part in self.parts:
            some = part.everything
            segments.add(
                searcher=part.segment.searcher,
                allowed=some.mask,
                second_allowed=some.second,
                share=some.share,
                count=some.count,
            )
        return segments

    def allowed_rows(self, request: SearchRequest) -> tuple[Allowed, ...]:
        """Return the rows of every part that a request allows."""
        if not request.filtered:
            return tuple(part.everything for part in self.parts)
        where, limits = request.where, request.where_limits
        if where is None:
            return allowed_rows(self.parts, request.filter, request.exclude, None)
        check_condition(where, limits)
        known, everything = self.conditions.get(where), request.filter is None and request.exclude is None
        if known is None:
            found = allowed_rows(
                self.parts, request.filter, request.exclude, lambda rows: self.matching(where, rows, limits)
            )
            if everything:
                self.conditions.put(where, found)
            return found
        if everything:
            return known
        some = allowed_rows(self.parts, request.filter, request.exclude, None)
        return tuple(part.both(*pair) for part, *pair in zip(self.parts, some, known, strict=True))

    @lazy
    def conditions(self) -> ConditionCache:
        """The rows for which conditions hold that were evaluated on all rows."""
        return ConditionCache()

    def bitmap_where(self, where: str, limits: WhereLimits | None) -> Bitmap:
        """Return the ids for which an SQL condition holds, with their rows in the segments."""
        allowed = self.allowed_rows(SearchRequest(where=where, where_limits=limits))
        return bitmap_of_rows(
            [
                (part.segment, part.every_row if some.mask is None else some.mask)
                for part, some in zip(self.parts, allowed, strict=True)
            ]
        )

    def scan(
        self, queries: Float32Array, plan: SearchPlan, trace: ScanTrace | None = None
    ) -> tuple[Scores, Ids]:
        """Return (n, k) scores, larger is better, and ids of the best rows of all parts in the lists probed."""
        found = []
        for part, some in zip(self.parts, plan.allowed, strict=True):
            if some.count == 0:
                continue
            if plan.exact:
                start = time.perf_counter()
                found.append(
                    search_exactly(
                        part.segment, queries, k=min(plan.k, some.count), allowed=some, threads=plan.threads
                    )
                )
                if trace is not None:
                    trace.add_exact(some.count, time.perf_counter() - start)
                continue
            counts = None if trace is None else np.zeros_like(trace.counts)
            found.append(
                part.segment.search(
                    queries,
                    k=min(plan.k, some.count),
                    probing=plan.probing,
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
        """Return the result of one query by a single native call; None if the query needs the general path."""
        if type(query) is not ndarray or query.ndim != 1 or plan.k > plan.n_allowed:
            return None
        scores, ids = empty(plan.k, FLOAT32), empty(plan.k, INT64)
        _, most, temperature, margin = plan.probing
        try:
            found = self.segments.search_one(query, most, temperature, margin, plan.rerank, ids, scores)
        except TypeError:  # not a contiguous array of float32
            return None
        return Result(scores, ids, self.trained.metric) if found else None

    def find(self, ids: Any) -> list[NDArray[np.intp]]:
        """Return for every part the row of every id, -1 if missing; ids are all integers or all strings."""
        if not self.parts:
            return []
        if not self.has_string_ids or not np.size(ids):
            return self.find_numbers(np.atleast_1d(integer_ids(ids)))
        strings = as_string_ids(ids)
        found = [part.segment.find_strings(strings) for part in self.parts]
        return [np.where(part.has(rows), rows, -1) for part, rows in zip(self.parts, found, strict=True)]

    def find_numbers(self, numbers: NDArray[Any]) -> list[NDArray[np.intp]]:
        """Return for every part the row of every integer id, -1 if missing, also where ids are strings."""
        found = [part.segment.find(numbers) for part in self.parts]
        return [np.where(part.has(rows), rows, -1) for part, rows in zip(self.parts, found, strict=True)]

    @lazy
    def columns(self) -> Any:
        """The Arrow schema of the attributes; a ValueError if there are none."""
        tables = [part.segment.attributes and part.segment.attributes.table for part in self.parts]
        return joined_attributes([(table and table.slice(0, 0), 0) for table in tables]).schema

    @lazy
    def has_string_ids(self) -> bool:
        """Whether ids are strings."""
        return bool(self.parts) and self.parts[0].segment.names is not None

    def strings(self, numbers: Ids) -> NDArray[np.object_]:
        """Return the string ids of integer ids as searches return them, None where there is none."""
        strings = np.full(numbers.size, None, object)
        flat = numbers.ravel()
        for part in self.parts:
            rows = part.segment.find(flat)
            present = np.flatnonzero(rows >= 0)
            strings[present] = part.segment.strings(rows[present])
        return strings.reshape(numbers.shape)

    def numbers(self, where: str | None = None, limits: WhereLimits | None = None) -> Ids:
        """Return the integer ids of all rows, or of those for which an SQL condition holds, ascending."""
        allowed = self.allowed_rows(SearchRequest(where=where, where_limits=limits))
        found = [np.empty(0, np.int64)]
        for part, some in zip(self.parts, allowed, strict=True):
            rows = part.rows_left() if some.mask is None else part.segment.blocks.chosen_rows(some.mask)
            found.append(part.segment.checked_ids[rows])
        return np.sort(np.concatenate(found))

    @property
    def has_attributes(self) -> bool:
        """Whether a part has attributes."""
        return any(part.segment.attributes is not None for part in self.parts)

    def matching(
        self, where: str, rows: Sequence[NDArray[np.bool_] | None], limits: WhereLimits | None = None
    ) -> list[NDArray[np.bool_]]:
        """Return for every row of every part, by ascending integer id, whether an SQL condition holds.

        `rows` are the rows of every part to evaluate, None for all. Other rows are not read: errors and run
        time of a condition could reveal their values.
        """
        if not self.parts:
            return []
        segments = [part.segment for part in self.parts]
        tables: list[Any] = [segment.attributes and segment.attributes.table for segment in segments]
        some: list[Any] = [
            slice(None) if chosen is None else np.flatnonzero(chosen[segment.by_id])
            for segment, chosen in zip(segments, rows, strict=True)
        ]
        counts = [
            len(segment) if chosen is None else len(places)
            for segment, chosen, places in zip(segments, rows, some, strict=True)
        ]

        def rows_of(columns: list[str]) -> Any:
            if len(segments) == 1 and rows[0] is None and segments[0].attributes is not None:
                schema = tables[0].schema
                if schema == without_dictionaries(schema):
                    return segments[0].attributes.for_conditions(columns)
            found = []
            for table, places, chosen, count in zip(tables, some, rows, counts, strict=True):
                present = [] if table is None else [name for name in columns if name in table.column_names]
                own = None if table is None or not present else table.select(present)
                found.append((own if own is None or chosen is None else own.take(places), count))
            joined = joined_attributes(found)
            return joined.cast(without_dictionaries(joined.schema))

        held = matching(self.columns, where, limits, rows_of)
        ends = np.cumsum(counts)
        found = [np.zeros(len(segment), bool) for segment in segments]
        for chosen, places, here in zip(found, some, np.split(held, ends[:-1]), strict=True):
            chosen[places] = here
        return found

    def including(self, segment: Segment) -> Snapshot:
        """Return the snapshot with another segment."""
        return replace(self, parts=(*self.parts, Part.whole(segment)))

    def without(self, ids: Any) -> Snapshot:
        """Return the snapshot with some ids removed; missing and repeated ids are ignored."""
        return self.without_rows([np.unique(rows[rows >= 0]) for rows in self.find(ids)])

    def without_rows(self, rows: Sequence[NDArray[np.intp]]) -> Snapshot:
        """Return the snapshot with some rows of every part removed, each given once."""
        if not any(len(some) for some in rows):
            return self
        parts = [part.without(some) for part, some in zip(self.parts, rows, strict=True)]
        return replace(self, parts=tuple(part for part in parts if part.count))

    @property
    def names(self) -> set[str]:
        """The names of all segments."""
        return {part.segment.name for part in self.parts}

    def replaced(self, old: Sequence[Part], merged: Segment | None, trained: Trained | None = None) -> Snapshot:
        """Return the snapshot with one merged segment in place of the parts it was made of.

        Rows that were removed from these parts after the merge began are removed from the merged segment too.
        """
        segments = {part.segment.name: part for part in old}
        now = {part.segment.name: part for part in self.parts}
        rest = tuple(part for part in self.parts if part.segment.name not in segments)
        after = self if trained is None else Snapshot(trained)
        if merged is None:
            return replace(after, parts=rest)
        whole = Part.whole(merged)
        for key, part in segments.items():
            removed = part.rows_gone(now.get(key))
            if len(removed):
                whole = whole.without(merged.find(part.segment.ids[removed]))
        return replace(after, parts=(*rest, whole) if whole.count else rest)


def joined_attributes(tables: Sequence[tuple[Any, int]]) -> Any:
    """Return the tables of all parts as one; raise a ValueError if no part has a table."""
    if all(table is None for table, _ in tables):
        raise ValueError(
            "the index has no attributes: use add(..., attributes=table) or pcpq build --attributes"
        )
    try:
        return same_rows(tables)
    except ValueError as error:  # tables are checked when they are added, so this one came from a file
        raise FormatError(str(error)) from error
