"""Which rows a filter, an exclusion and an SQL condition leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pcpq.io.ids import as_words, integer_ids, kind_of
from pcpq.search.snapshot import Snapshot, rows_in
from pcpq.search.where import WhereLimits
from pcpq.segment.segment import Allowed, Segment


class Bitmap:
    """Ids that may be found, prepared: the second search with it does not look them up again."""

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
