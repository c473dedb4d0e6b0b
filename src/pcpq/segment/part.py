"""A segment with its tombstones: which of its rows were removed, and which a search may find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.segment.packing import Blocks
from pcpq.segment.segment import Allowed, Mask, Segment


@dataclass(frozen=True, eq=False)
class Part:
    """A segment without the rows that were removed from it."""

    segment: Segment
    count: int  # rows that are left
    live: Mask | None = None  # rows that are left; None: all

    @classmethod
    def whole(cls, segment: Segment) -> Part:
        """All rows of a segment."""
        return cls(segment, len(segment))

    def has(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of these rows are left; row -1 is not."""
        there = rows >= 0
        if self.live is not None:
            words, bits = self.segment.blocks.bits(np.maximum(rows, 0))
            there &= (self.live[words] & bits) != 0
        return there

    def without(self, rows: NDArray[np.intp]) -> Part:
        """The part less some of its rows, each given once."""
        if len(rows) == 0:
            return self
        live = (self.segment.every_row if self.live is None else self.live).copy()
        words, bits = self.segment.blocks.bits(rows)
        np.bitwise_and.at(live, words, ~bits)
        return replace(self, count=self.count - len(rows), live=live)

    def rows_left(self) -> NDArray[np.intp]:
        """The rows that are left, ascending."""
        rows = np.arange(len(self.segment))
        return rows if self.live is None else rows[self.has(rows)]

    def rows_gone(self, later: Part | None) -> NDArray[np.intp]:
        """The rows that are not there any more in a later part of the same segment; None: none is."""
        if later is None:
            return self.rows_left()
        if later.live is self.live or later.live is None:
            return np.empty(0, np.intp)
        before = self.segment.every_row if self.live is None else self.live
        return self.segment.blocks.chosen_rows(before & ~later.live)

    @property
    def everything(self) -> Allowed:
        """All rows that are left."""
        return Allowed(self.count, self.live, self.count / max(len(self.segment), 1))

    @property
    def every_row(self) -> Mask:
        """The mask of all rows, removed ones too."""
        return self.segment.every_row

    def only(self, mask: Mask) -> Allowed:
        """The rows of a mask that are left."""
        both = mask if self.live is None else mask & self.live
        return Allowed(int(np.unpackbits(both.view(np.uint8)).sum()), both, 0.0)

    def mask_of_ids(self, ids: NDArray[Any]) -> Mask:
        """The mask of the rows that have one of these ids."""
        return self.segment.blocks.mask(self.segment.rows_with(ids))

    def mask_of_rows(self, rows: NDArray[np.intp]) -> Mask:
        """The mask of some rows."""
        chosen = np.zeros(len(self.segment), bool)
        chosen[rows] = True
        return self.segment.blocks.mask(chosen)

    def rows_of(self, some: Allowed) -> NDArray[np.bool_] | None:
        """(n,) whether each row of the segment is among these; None: all are."""
        return None if some.mask is None else rows_in(self.segment.blocks, some.mask)


def rows_in(blocks: Blocks, mask: Mask) -> NDArray[np.bool_]:
    """(n,) whether each row, in list order, is in a mask of blocks."""
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return bits[blocks.row_places()].astype(bool)
