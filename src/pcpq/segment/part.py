"""A segment with its tombstones: the rows that were removed, and those that a search may find."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.segment.packing import Blocks
from pcpq.segment.segment import Allowed, Mask, Segment
from pcpq.util.lazy import lazy


@dataclass(frozen=True, eq=False)
class Part:
    """A segment with tombstones."""

    segment: Segment
    count: int  # number of rows without a tombstone
    not_removed: Mask | None = None  # the rows without a tombstone; None: no row has one

    @property
    def has_tombstones(self) -> bool:
        """Whether rows were removed."""
        return self.not_removed is not None

    @classmethod
    def whole(cls, segment: Segment) -> Part:
        """Return a segment without tombstones."""
        return cls(segment, len(segment))

    def has(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which of these rows exist and are not removed; row -1 does not exist."""
        exists = rows >= 0
        if self.not_removed is not None:
            words, bits = self.segment.blocks.bits(np.maximum(rows, 0))
            exists &= (self.not_removed[words] & bits) != 0
        return exists

    def without(self, rows: NDArray[np.intp]) -> Part:
        """Return the part with tombstones for some more rows, each given once."""
        if len(rows) == 0:
            return self
        mask = (self.segment.every_row if self.not_removed is None else self.not_removed).copy()
        words, bits = self.segment.blocks.bits(rows)
        np.bitwise_and.at(mask, words, ~bits)
        return replace(self, count=self.count - len(rows), not_removed=mask)

    def rows_left(self) -> NDArray[np.intp]:
        """Return the rows that are not removed, ascending."""
        rows = np.arange(len(self.segment))
        return rows if self.not_removed is None else rows[self.has(rows)]

    def rows_gone(self, later: Part | None) -> NDArray[np.intp]:
        """Return the rows that were removed since, given the later part of the same segment; None: all were."""
        if later is None:
            return self.rows_left()
        if later.not_removed is self.not_removed or later.not_removed is None:
            return np.empty(0, np.intp)
        before = self.segment.every_row if self.not_removed is None else self.not_removed
        return self.segment.blocks.chosen_rows(before & ~later.not_removed)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without lazy attributes."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @lazy
    def everything(self) -> Allowed:
        """All rows that are not removed."""
        share = self.count / max(len(self.segment), 1)
        return Allowed(self.count, self.not_removed, share, self.segment.second)

    @property
    def every_row(self) -> Mask:
        """The mask of all rows, including removed ones."""
        return self.segment.every_row

    def only(self, mask: Mask) -> Allowed:
        """Return the rows of a mask that are not removed."""
        both = mask if self.not_removed is None else mask & self.not_removed
        return Allowed(int(np.unpackbits(both.view(np.uint8)).sum()), both, 0.0, self.segment.second)

    def both(self, one: Allowed, other: Allowed) -> Allowed:
        """Return the rows that are in both."""
        masks = [some.mask for some in (one, other) if some.mask is not None]
        return self.only(np.bitwise_and.reduce(masks)) if masks else one

    def mask_of_ids(self, ids: NDArray[Any]) -> Mask:
        """Return the mask of the rows that have one of these ids."""
        return self.segment.blocks.mask(self.segment.rows_with(ids))

    def mask_by_id(self, chosen: NDArray[np.bool_]) -> Mask:
        """Return the mask of the rows that are chosen, in ascending order of integer ids."""
        return self.segment.blocks.mask(chosen, self.segment.by_id)

    def rows_of(self, some: Allowed) -> NDArray[np.bool_] | None:
        """Return (n,) whether each row of the segment is allowed; None if all are."""
        return None if some.mask is None else rows_in(self.segment.blocks, some.mask)


def rows_in(blocks: Blocks, mask: Mask) -> NDArray[np.bool_]:
    """Return (n,) whether each row, in list order, is in a mask of blocks."""
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return bits[blocks.row_places()].astype(bool)
