"""The rows that a filter, an exclusion and an SQL condition allow."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pcpq.io.foreign_arrays import as_array
from pcpq.io.ids import as_string_ids, integer_ids, is_id, kind_of
from pcpq.segment.ids import StringIds
from pcpq.segment.part import rows_in
from pcpq.segment.segment import Allowed, Mask, Segment
from pcpq.util.lazy import lazy

# Memory of conditions that a snapshot remembers.
MOST_CACHED_BYTES = 1 << 26


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

    def mask_by_id(self, chosen: NDArray[np.bool_]) -> Mask:
        """Return the mask of the rows of the segment that are chosen, in ascending order of integer ids."""

    def rows_of(self, some: Allowed) -> NDArray[np.bool_] | None:
        """Return (n,) whether each row of the segment is allowed; None if all are."""


AnyPart = TypeVar("AnyPart", bound=FilteredPart)
# Takes the rows of every part to evaluate (None: all); returns for every row of every part, by ascending
# integer id, whether it holds.
Condition = Callable[[Sequence[NDArray[np.bool_] | None]], Sequence[NDArray[np.bool_]]]


class Bitmap:
    """A set of ids for `filter` and `exclude`, prepared for repeated use: ids are looked up once per segment.

    `a & b`, `a | b` and `~a` combine bitmaps. The complement `~a` holds all ids but those of `a`, in whichever
    index it is used. `index.where` returns the ids for which an SQL condition holds.

    Parameters
    ----------
    ids : int or str ids, as an array, a list or a set; or a mask of bool, which holds the id i where mask[i] is
        true
    """

    def __init__(self, ids: Any) -> None:
        mask = as_mask(ids)
        if mask is not None:
            ids = np.flatnonzero(mask)
        elif isinstance(ids, (Set, Iterator)):
            ids = list(ids)
        strings = kind_of(ids) == "str"
        # Of one dtype: an empty list has another.
        found = np.unique(
            np.array(as_string_ids(ids), object) if strings else integer_ids(ids).astype(np.int64, copy=False)
        )
        self.__setstate__({"ids": found, "complement": False})

    @lazy
    def ids(self) -> NDArray[Any]:
        """The sorted ids; those that are not in the set if it is a complement."""
        names = self._names  # strings are decoded only when they are needed
        return np.array(sorted(names[place] for place in range(len(names))), np.object_)

    def __len__(self) -> int:
        if self.complement:
            raise TypeError("the complement of a Bitmap has no length: it depends on the index")
        return len(self.ids)

    def __bool__(self) -> bool:
        return self.complement or len(self.ids) > 0

    def __contains__(self, some_id: Any) -> bool:
        place = bisect_left(self.ids, some_id) if is_id(some_id, self._kind) else len(self.ids)
        return bool(place < len(self.ids) and self.ids[place] == some_id) != self.complement

    def __invert__(self) -> Bitmap:
        return bitmap_of(self.ids, not self.complement)

    def __and__(self, other: object) -> Bitmap:
        if not isinstance(other, Bitmap):
            return NotImplemented
        kinds = {bitmap._kind for bitmap in (self, other) if len(bitmap.ids)}
        if len(kinds) > 1:
            raise ValueError("a Bitmap of int ids cannot be combined with one of str ids")
        if self.complement and other.complement:
            return bitmap_of(np.union1d(self.ids, other.ids) if kinds else self.ids, True)
        if self.complement:
            return other & self
        return bitmap_of(self.ids[contained(self.ids, other.ids) != other.complement])

    def __or__(self, other: object) -> Bitmap:
        return ~(~self & ~other) if isinstance(other, Bitmap) else NotImplemented

    def __repr__(self) -> str:
        some = ", ".join(map(repr, self.ids[:3].tolist())) + (", ..." if len(self.ids) > 3 else "")
        return f"{'~' * self.complement}Bitmap({len(self.ids):,} ids: {some})".replace(" ids: )", " ids)")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without the masks of segments."""
        return {"ids": self.ids, "complement": self.complement}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.complement: bool
        self._names: StringIds  # only if `ids` are not decoded yet
        self._masks: WeakKeyDictionary[Segment, Mask] = WeakKeyDictionary()
        vars(self).update(state)

    @property
    def _kind(self) -> str:
        return "str" if self.ids.dtype == object else "int"


def bitmap_of(ids: NDArray[Any], complement: bool = False) -> Bitmap:
    """Return the bitmap of sorted, distinct ids, or of all others."""
    bitmap = Bitmap.__new__(Bitmap)
    bitmap.__setstate__({"ids": ids, "complement": complement})
    return bitmap


def bitmap_of_rows(rows: Sequence[tuple[Segment, Mask]]) -> Bitmap:
    """Return the bitmap of the ids of rows, given by a mask per segment, which are not looked up again."""
    numbers, names = [np.empty(0, np.int64)], []
    for segment, mask in rows:
        places = np.flatnonzero(rows_in(segment.blocks, mask)[segment.by_id])
        if segment.names is None:
            numbers.append(segment.ids[segment.by_id[places]])
        else:
            names.append(segment.names.chosen(places))
    bitmap = Bitmap.__new__(Bitmap)
    # Sorted runs, one per segment, which a stable sort merges.
    found = (
        {"_names": StringIds.joined(names)}
        if names
        else {"ids": np.sort(np.concatenate(numbers), kind="stable")}
    )
    bitmap.__setstate__(found | {"complement": False})
    bitmap._masks.update(rows)
    return bitmap


def contained(ids: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of these sorted ids are among others."""
    if ids.dtype != object or others.dtype != object:
        return np.isin(ids, others)
    known = set(others.tolist())  # np.isin compares all pairs of objects
    return np.fromiter((one in known for one in ids.tolist()), bool, len(ids))


def mask_of(bitmap: Bitmap, part: FilteredPart) -> Mask:
    """Return the mask of the rows of a part that are in the set; ids are looked up once per segment."""
    masks = bitmap._masks
    if part.segment not in masks:
        masks[part.segment] = part.mask_of_ids(bitmap.ids)
    return part.every_row & ~masks[part.segment] if bitmap.complement else masks[part.segment]


def as_bitmap(ids: Any, next_id: int | None = None, kind: str | None = None) -> Bitmap | None:
    """Return the ids of a filter as a Bitmap; None for no filter.

    `next_id` is the largest id that was ever used in the index, plus 1. A mask of another length is refused,
    and any mask if the ids are of the kind "str".
    """
    if ids is None or isinstance(ids, Bitmap):
        return ids
    if isinstance(ids, (str, bytes)):
        raise ValueError(
            f"a filter is {ids!r}; expected ids, such as [{ids!r}]; where= takes conditions on attributes"
        )
    mask = as_mask(ids) if next_id is not None else None
    if mask is not None and kind == "str":
        raise ValueError("a filter of bool is for integer ids; this index has strings: give ids, or use where=")
    if mask is not None and len(mask) != next_id:
        raise ValueError(
            f"a filter of bool has {len(mask)} values; expected {next_id}, one for every id from 0 on"
        )
    return Bitmap(ids)


def as_mask(ids: Any) -> NDArray[np.bool_] | None:
    """Return a filter of bool values as an array; None if the filter holds ids."""
    if not isinstance(ids, (list, tuple)) and not hasattr(ids, "dtype"):
        return None
    if isinstance(ids, (list, tuple)) and not (ids and isinstance(ids[0], (bool, np.bool_))):
        return None
    given = as_array(ids, "ids")
    return given if given.dtype == bool and given.ndim == 1 else None


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
    return tuple(part.only(part.mask_by_id(held)) for part, held in zip(parts, condition(rows), strict=True))


class ConditionCache:
    """The rows of all parts that SQL conditions allow, by condition; the least recently used one goes first."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, tuple[Allowed, ...]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()  # a signal handler may search while this thread does

    def get(self, where: str) -> tuple[Allowed, ...] | None:
        """Return the rows that a condition allows; None if they are not known."""
        with self._lock:
            if where in self._found:
                self._found.move_to_end(where)
            return self._found.get(where)

    def put(self, where: str, allowed: tuple[Allowed, ...]) -> None:
        """Keep the rows that a condition allows."""
        with self._lock:
            if where not in self._found:
                self._found[where] = allowed
                self._bytes += size_of(where, allowed)
            while self._bytes > MOST_CACHED_BYTES:
                self._bytes -= size_of(*self._found.popitem(last=False))


def size_of(where: str, allowed: Sequence[Allowed]) -> int:
    """Return about how many bytes a condition takes in the cache."""
    return 1000 + 4 * len(where) + sum(0 if some.mask is None else some.mask.nbytes for some in allowed)
