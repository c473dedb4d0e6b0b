"""What an index holds at one moment: segments, and which of their rows are still there.

Nothing here changes: whoever writes makes a new snapshot, and searches go on in the one they began with.
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
from pcpq.search.recall_curve import Choice, RecallCurve
from pcpq.search.where import WhereLimits, matching
from pcpq.segment.attributes import same_rows
from pcpq.segment.packing import Blocks
from pcpq.segment.segment import Allowed, Scores, Segment
from pcpq.segment.trained import Trained
from pcpq.util.lazy import once


@dataclass(frozen=True, eq=False)
class Part:
    """A segment without what was removed from it."""

    segment: Segment
    count: int  # rows that are there
    live: NDArray[np.uint32] | None = None  # a bit a row, a word a block; None: all

    @classmethod
    def whole(cls, segment: Segment) -> Part:
        """All of a segment."""
        return cls(segment, len(segment))

    def has(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows are there; -1 is not."""
        there = rows >= 0
        if self.live is not None:
            words, bits = self.segment.blocks.bits(np.maximum(rows, 0))
            there &= (self.live[words] & bits) != 0
        return there

    def without(self, rows: NDArray[np.intp]) -> Part:
        """Less some rows that are there, each once."""
        if len(rows) == 0:
            return self
        live = (self.segment.every_row if self.live is None else self.live).copy()
        words, bits = self.segment.blocks.bits(rows)
        np.bitwise_and.at(live, words, ~bits)
        return replace(self, count=self.count - len(rows), live=live)

    def rows_there(self) -> NDArray[np.intp]:
        """Their numbers, ascending."""
        everyone = np.arange(len(self.segment))
        return everyone if self.live is None else everyone[self.has(everyone)]

    def rows_gone(self, later: Part | None) -> NDArray[np.intp]:
        """The rows that are not there any more in a later part of the same segment; None: none is."""
        if later is None:
            return self.rows_there()
        if later.live is self.live or later.live is None:
            return np.empty(0, np.intp)
        before = self.segment.every_row if self.live is None else self.live
        return self.segment.blocks.chosen_rows(before & ~later.live)

    @property
    def everything(self) -> Allowed:
        """All that may be found."""
        return Allowed(self.count, self.live, self.count / max(len(self.segment), 1))

    def only(self, mask: NDArray[np.uint32]) -> Allowed:
        """What a mask leaves."""
        both = mask if self.live is None else mask & self.live
        return Allowed(int(np.unpackbits(both.view(np.uint8)).sum()), both, 0.0)


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
    def plans(self) -> dict[Any, Any]:
        """What searches for one query settled on, by what they were asked."""
        return {}

    @once
    def choices(self) -> dict[Any, Choice]:
        """Probes and candidates, by what a search was asked for."""
        return {}

    @property
    def only_segment(self) -> Segment | None:
        """The segment, where there is one and nothing was removed from it."""
        one = len(self.parts) == 1 and self.parts[0].live is None
        return self.parts[0].segment if one else None

    def search(
        self,
        queries: Float32Array,
        k: int,
        probes: int,
        rerank: int,
        allowed: Sequence[Allowed],
        threads: int | None,
        counts: Ids | None = None,
        seconds: NDArray[np.float64] | None = None,
    ) -> tuple[Scores, Ids]:
        """As Segment.search, in all parts; -1 and -inf where there are fewer than k."""
        found = []
        for part, some in zip(self.parts, allowed, strict=True):
            if some.count == 0:
                continue
            here = None if counts is None else np.zeros_like(counts)
            own_k, own_rerank = min(k, some.count), min(rerank, some.count)
            found.append(part.segment.search(queries, own_k, probes, own_rerank, some, threads, here, seconds))
            if counts is not None and here is not None:
                counts += here
        return best_of(found, len(queries), k)

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


def rows_in(blocks: Blocks, mask: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """(n,) which rows a mask of blocks leaves, in list order."""
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return bits[blocks.row_places()].astype(bool)


def best_of(found: list[tuple[Scores, Ids]], n: int, k: int) -> tuple[Scores, Ids]:
    """(n, k) the best of several searches, ties to the lower id."""
    if len(found) == 1 and found[0][0].shape[1] == k:
        return found[0]
    scores = np.concatenate([one[0] for one in found] + [np.full((n, k), -np.inf)], axis=1)
    ids = np.concatenate([one[1] for one in found] + [np.full((n, k), -1, np.int64)], axis=1)
    # Nothing found comes last among equals.
    order = np.lexsort((ids, ids < 0, -scores), axis=1)[:, :k]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(ids, order, axis=1)
