"""Additions, updates and removals. Slow work is prepared before the writer's lock is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import as_asked, as_string_ids, integer_ids
from pcpq.io.streams import Stream
from pcpq.search.reconstruct import attributes_of_rows, refuse_missing
from pcpq.search.request import SearchRequest
from pcpq.search.snapshot import Snapshot
from pcpq.search.where import WhereLimits
from pcpq.segment.attributes import Attributes, as_table, overlaid, same_rows
from pcpq.segment.encoded_rows import EncodedRows, EncodedRowsBuilder
from pcpq.segment.ids import GivenIds, given_ids, refuse_other_kind
from pcpq.segment.list_statistics import ListStatistics
from pcpq.segment.part import Part
from pcpq.segment.segment import Segment
from pcpq.segment.trained import Trained
from pcpq.store.merging import segment_of_rows
from pcpq.store.refit import encode_again
from pcpq.store.store import Contents
from pcpq.util.threads import available_threads

# Called with the number of vectors done and the total, None if it is unknown.
Progress = Callable[[int, int | None], None]
# Called with a batch of vectors in working units and the number of its first vector.
Observe = Callable[[Float32Array, int], None]


def encode(
    trained: Trained,
    stream: Stream,
    threads: int | None,
    progress: Progress | None = None,
    observe: Observe | None = None,
) -> tuple[EncodedRows, ListStatistics]:
    """Encode all vectors of a stream batch by batch; ids are set later."""
    builder = EncodedRowsBuilder(stream.length)
    batches = stream.batches(trained.dimensions, available_threads(threads))
    for rows, spread in trained.all_rows(batches, threads, observe):
        builder.append(rows, spread)
        if progress is not None:
            progress(builder.count, stream.length)
    return builder.finish()


class GivenRows(NamedTuple):
    """Checked ids and attributes of vectors to be added."""

    ids: GivenIds
    table: Any  # an Arrow table, or None

    @classmethod
    def of(cls, ids: Any, attributes: Any, count: int | None, kind: str | None) -> GivenRows:
        """Check ids and attributes of `count` vectors, before any work is done on them.

        If the number of vectors is not known, ids and attributes must agree, and it is compared later.
        """
        table = None if attributes is None else as_table(attributes, count)
        if count is None and ids is not None:
            count = len(ids) if hasattr(ids, "__len__") else int(np.size(ids))
        given = given_ids(ids, count or 0, kind)
        if table is not None and count is not None and len(table) != count:
            raise ValueError(f"attributes have {len(table)} rows for {count} ids; expected one per vector")
        return cls(given, table)

    def for_rows(self, count: int) -> GivenRows:
        """Return these for the number of vectors that were found; raise a ValueError if they are others."""
        if self.ids.given is not None and self.ids.count != count:
            raise ValueError(f"{self.ids.count} ids for {count} vectors; expected one per vector")
        if self.table is not None and len(self.table) != count:
            raise ValueError(
                f"attributes have {len(self.table)} rows for {count} vectors; expected one per vector"
            )
        return self._replace(ids=replace(self.ids, count=count))

    def refuse_known(self, snapshot: Snapshot) -> None:
        """Raise a ValueError if an id exists in the snapshot, or columns do not match its columns."""
        if self.ids.given is not None:
            refuse_known(snapshot, self.ids.given)
        if self.table is not None:
            refuse_other_columns(snapshot, Attributes.of(self.table))


class RowsOfIds:
    """The rows of given ids in the segments of an index.

    Segments are immutable, so rows are found without a lock and remembered by name of the segment. Rows that
    were deleted since are left out by `there`.
    """

    def __init__(self, ids: Any) -> None:
        self._ids = ids
        self._keys: list[str] | NDArray[Any] | None = None  # the ids in the form that segments search for
        self._rows: dict[str, NDArray[np.intp]] = {}  # by segment

    def find(self, snapshot: Snapshot) -> None:
        """Find the ids in segments that were not searched yet."""
        for part in snapshot.parts:
            if part.segment.name not in self._rows:
                self._rows[part.segment.name] = self._find(part.segment, snapshot.has_string_ids)

    def _find(self, segment: Segment, has_string_ids: bool) -> NDArray[np.intp]:
        if self._keys is None:
            as_strings = has_string_ids and np.size(self._ids)
            self._keys = as_string_ids(self._ids) if as_strings else np.atleast_1d(integer_ids(self._ids))
        keys = self._keys
        rows = segment.find_strings(keys) if isinstance(keys, list) else segment.find(keys)
        found = np.unique(rows[rows >= 0])
        if len(found):
            segment.every_row  # noqa: B018  (cached here, because Part.without needs it)
        return found

    def there(self, part: Part) -> NDArray[np.intp]:
        """Return the distinct rows of a part that have these ids and are not deleted."""
        rows = self._rows[part.segment.name]
        return rows[part.has(rows)]


class Removal:
    """A removal of vectors by their ids."""

    def __init__(self, ids: Any) -> None:
        self._rows = RowsOfIds(ids)
        self.removed = 0  # number of removed vectors

    def prepare(self, contents: Contents) -> None:
        """Find the rows of the ids."""
        self._rows.find(contents.snapshot)

    def apply(self, contents: Contents) -> Contents:
        """Return the contents without the removed rows."""
        before = contents.snapshot
        self._rows.find(before)  # in segments added since `prepare`
        after = before.without_rows([self._rows.there(part) for part in before.parts])
        self.removed = len(before) - len(after)
        return contents._replace(snapshot=after)


def same_parts(one: Sequence[Part], other: Sequence[Part]) -> bool:
    """Return whether no part was changed, added or merged."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


class ConditionalRemoval:
    """A removal of the vectors for which an SQL condition holds."""

    def __init__(self, where: str, limits: WhereLimits | None) -> None:
        self._request = SearchRequest(where=where, where_limits=limits)
        self._prepared: tuple[Sequence[Part], list[NDArray[np.intp]]] = (), []
        self.removed = 0  # number of removed vectors

    def prepare(self, contents: Contents) -> None:
        """Evaluate the condition."""
        parts, rows = contents.snapshot.parts, []
        for part, some in zip(parts, contents.snapshot.allowed_rows(self._request), strict=True):
            rows.append(part.segment.blocks.chosen_rows(part.every_row if some.mask is None else some.mask))
        self._prepared = parts, rows

    def apply(self, contents: Contents) -> Contents | None:
        """Return the contents without the removed rows; None if they have changed since `prepare`."""
        parts, rows = self._prepared
        before = contents.snapshot
        if not same_parts(parts, before.parts):
            return None
        after = before.without_rows(rows)
        self.removed = len(before) - len(after)
        return contents._replace(snapshot=after)


class Update:
    """A change of attributes. The encoded rows of the vectors move to a new segment with a new table."""

    def __init__(self, ids: Any, attributes: Any, kind: str | None) -> None:
        asked = as_asked(ids)
        self._ids = given_ids(asked, len(asked), kind if len(asked) else None)
        self._table = as_table(attributes, len(asked))
        self._parts: Sequence[Part] = ()
        self._rows: list[NDArray[np.intp]] = []
        self._segment: Segment | None = None

    def prepare(self, contents: Contents) -> None:
        """Make the new segment; raise a KeyError if an id does not exist."""
        snapshot, given = contents.snapshot, self._ids.given
        if given is None:
            raise AssertionError("an update names its ids")
        numbers = np.full(len(given), -1, np.int64)
        found = snapshot.find(given)
        for part, rows in zip(snapshot.parts, found, strict=True):
            numbers[rows >= 0] = part.segment.ids[rows[rows >= 0]]
        refuse_missing(given, numbers < 0)
        refuse_other_columns(snapshot, Attributes.of(self._table))
        self._parts, self._rows = snapshot.parts, [rows[rows >= 0] for rows in found]
        chosen = zip(snapshot.parts, self._rows, strict=True)
        segment = segment_of_rows([(part.segment, rows) for part, rows in chosen])
        if segment is not None:
            old = None if segment.attributes is None else segment.attributes.table
            segment = replace(segment, attributes=overlaid(old, self._table.take(np.argsort(numbers))))
        self._segment = segment

    def apply(self, contents: Contents) -> Contents | None:
        """Return the contents with the new attributes; None if they have changed since `prepare`."""
        if not same_parts(self._parts, contents.snapshot.parts):
            return None
        if self._segment is None:  # no ids are given
            return contents
        after = contents.snapshot.without_rows(self._rows).including(self._segment)
        return contents._replace(snapshot=after)


class Insertion:
    """An addition of one segment. Ids that the index assigns count from 0 until `apply` shifts them."""

    def __init__(self, segment: Segment, ids: GivenIds, replacing: bool) -> None:
        self._segment, self._ids, self._replacing = segment, ids, replacing
        self._rows = RowsOfIds(ids.given)
        self._first = 0
        # Parts, and the attributes of the new segment with those that replaced vectors have there.
        self._kept: tuple[Sequence[Part], Attributes | None] | None = None

    @classmethod
    def of(
        cls,
        trained: Trained,
        rows: EncodedRows,
        spread: ListStatistics,
        checked: GivenRows,
        replacing: bool,
    ) -> Insertion:
        """Make a segment of encoded rows with checked ids and attributes."""
        given, table = checked.for_rows(len(rows))
        numbers = given.numbers(0)
        rows.ids[:] = numbers
        known = None if table is None else Attributes.of(table.take(np.argsort(numbers)))
        return cls(Segment.of(trained, rows, spread, given.names, known), given, replacing)

    @property
    def given(self) -> NDArray[Any]:
        """(n,) the ids in the user's form."""
        return self._ids.numbers(self._first) if self._ids.given is None else self._ids.given

    def prepare(self, contents: Contents, threads: int | None) -> None:
        """Encode again after a refit, and raise a ValueError if an id exists and may not be replaced."""
        trained = contents.snapshot.trained
        if self._segment.trained is not trained:
            self._encode_again(trained, threads)
        refuse_other_kind(self._ids.kind, contents.kind)
        for part in contents.snapshot.parts:
            if self._ids.given is None:
                part.segment.by_id  # noqa: B018  (cached here, because find_between needs it)
            if self._segment.attributes is not None and part.segment.attributes is not None:
                part.segment.attributes.table  # noqa: B018  (reads the file here)
        if self._ids.given is not None:
            self._rows.find(contents.snapshot)
            there = self._there(contents.snapshot, 0)
            self._refuse_known(contents.snapshot, there)
            self._attributes(contents.snapshot, there)

    def _encode_again(self, trained: Trained, threads: int | None) -> None:
        encoded = None
        if trained.keep is not None:
            encoded = encode_again(trained, [Part.whole(self._segment)], threads)
        if encoded is None:
            raise ValueError("the index was fitted again while vectors were encoded; add them again")
        self._segment = encoded

    def apply(self, contents: Contents) -> Contents | None:
        """Return the contents with the new segment; None if the index was refitted after it was encoded."""
        snapshot, kind, next_id = contents
        segment = self._segment
        if segment.trained is not snapshot.trained:
            return None
        refuse_other_kind(self._ids.kind, kind)
        self._first = first = 0 if self._ids.are_numbers else self._ids.first_number(next_id)
        if self._ids.given is not None:
            self._rows.find(snapshot)  # in segments added since `prepare`
        there = self._there(snapshot, first)
        self._refuse_known(snapshot, there)
        before, attributes = snapshot.without_rows(there), self._attributes(snapshot, there)
        if attributes is not None:
            refuse_other_columns(before, attributes)
        if attributes is not segment.attributes:
            segment = replace(segment, attributes=attributes)
        if not self._ids.are_numbers:
            segment = replace(segment, ids=segment.ids + first)
        after = before.including(segment)
        return Contents(after, self._ids.kind, max(next_id, int(segment.ids.max()) + 1))

    def _attributes(self, snapshot: Snapshot, there: Sequence[NDArray[np.intp]]) -> Attributes | None:
        """Return the given attributes, with columns that are not given from the vectors that are replaced."""
        if not any(len(rows) for rows in there):
            return self._segment.attributes
        if self._kept is None or not same_parts(self._kept[0], snapshot.parts):
            self._kept = snapshot.parts, with_kept_columns(snapshot, self._ids, self._segment.attributes)
        return self._kept[1]

    def _there(self, snapshot: Snapshot, first: int) -> list[NDArray[np.intp]]:
        """Return, for every part, the rows that have these ids already."""
        if self._ids.given is not None:
            return [self._rows.there(part) for part in snapshot.parts]
        last = first + self._ids.count - 1
        found = [part.segment.find_between(first, last) for part in snapshot.parts]
        return [rows[part.has(rows)] for part, rows in zip(snapshot.parts, found, strict=True)]

    def _refuse_known(self, snapshot: Snapshot, there: Sequence[NDArray[np.intp]]) -> None:
        if not self._replacing and any(len(rows) for rows in there):
            refuse_known(snapshot, self.given)


def with_kept_columns(snapshot: Snapshot, ids: GivenIds, given: Attributes | None) -> Attributes | None:
    """Return attributes of ids, given in ascending order of numbers, with the other columns of the snapshot."""
    if not snapshot.has_attributes:
        return given
    table = None if given is None else given.table
    names = [name for name in snapshot.columns.names if table is None or name not in table.column_names]
    if not names:
        return given
    old = attributes_of_rows(snapshot, ids.count, snapshot.find(ids.given), names)
    old = old.select([name for name in names if old[name].null_count < ids.count])
    if not old.num_columns:
        return given
    return overlaid(old.take(np.argsort(ids.numbers(0))), table)


def refuse_known(snapshot: Snapshot, ids: NDArray[Any]) -> None:
    """Raise a ValueError that names the first id that exists in the snapshot."""
    for rows in snapshot.find(ids):
        if (rows >= 0).any():
            raise ValueError(f"id {ids[rows >= 0][0]!s} is in the index already; upsert replaces it")


def sorted_attributes(attributes: Any, numbers: Ids) -> Attributes:
    """Return attributes, given in the order of `numbers`, in ascending order of numbers."""
    table = as_table(attributes, len(numbers))
    return Attributes.of(table.take(np.argsort(numbers)))


def refuse_other_columns(snapshot: Snapshot, attributes: Attributes) -> None:
    """Raise a ValueError if columns of attributes do not match those of the snapshot."""
    there = [part.segment.attributes for part in snapshot.parts if part.segment.attributes is not None]
    same_rows([(one.table.slice(0, 0), 0) for one in (attributes, *there)])
