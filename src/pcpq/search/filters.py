"""The rows that a filter, an exclusion and an SQL condition allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pcpq.io.ids import as_string_ids, integer_ids, kind_of
from pcpq.segment.segment import Allowed, Mask, Segment


class FilteredPart(Protocol):
    """A part of an index or of a shard, as filters need it."""

    @property
    def segment(self) -> Segment:
        """The segment of the part."""

    @property
    def everything(self) -> Allowed:
        """All rows that are not removed."""

    @property
    def every_row(self) -> Mask:
        """The mask of all rows, including removed ones."""

    def only(self, mask: Mask) -> Allowed:
        """Return the rows of a mask that are not removed."""

    def mask_of_ids(self, ids: NDArray[Any]) -> Mask:
        """Return the mask of the rows that have one of these ids."""

    def mask_of_rows(self, rows: NDArray[np.intp]) -> Mask:
        """Return the mask of some rows of the segment."""

    def rows_of(self, some: Allowed) -> NDArray[np.bool_] | None:
        """Return (n,) whether each row of the segment is allowed; None if all are."""


AnyPart = TypeVar("AnyPart", bound=FilteredPart)
# Takes the rows of every part to evaluate (None: all); returns the rows of every part for which it holds.
Condition = Callable[[Sequence[NDArray[np.bool_] | None]], Sequence[NDArray[np.intp]]]


class Bitmap:
    """A set of ids for `filter`, prepared for repeated use: later searches do not look the ids up again."""

    def __init__(self, ids: Any) -> None:
        strings = kind_of(ids) == "str"
        self.ids: NDArray[Any] = np.unique(
            np.array(as_string_ids(ids), object) if strings else integer_ids(ids)
        )
        self._masks: WeakKeyDictionary[Segment, Mask] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self.ids)


def mask_of(bitmap: Bitmap, part: FilteredPart) -> Mask:
    """Return the mask of the rows of a part that have one of the ids; looked up once per segment."""
    masks = bitmap._masks
    if part.segment not in masks:
        masks[part.segment] = part.mask_of_ids(bitmap.ids)
    return masks[part.segment]


def as_bitmap(ids: Any) -> Bitmap | None:
    """Return the ids of a filter as a Bitmap; None for no filter."""
    return ids if ids is None or isinstance(ids, Bitmap) else Bitmap(ids)


def allowed_rows(
    parts: Sequence[AnyPart], only: Bitmap | None, exclude: Bitmap | None, condition: Condition | None
) -> tuple[Allowed, ...]:
    """Return the rows of every part that a filter, an exclusion and a condition allow.

    The condition is evaluated only on the rows that the other two allow.
    """
    found = []
    for part in parts:
        some = part.everything if only is None else part.only(mask_of(only, part))
        if exclude is not None:
            mask = part.every_row if some.mask is None else some.mask
            left = part.only(mask & ~mask_of(exclude, part))
            some = replace(left, share=some.share * left.count / max(some.count, 1))
        found.append(some)
    if condition is None:
        return tuple(found)
    rows = [part.rows_of(some) for part, some in zip(parts, found, strict=True)]
    return tuple(part.only(part.mask_of_rows(held)) for part, held in zip(parts, condition(rows), strict=True))
