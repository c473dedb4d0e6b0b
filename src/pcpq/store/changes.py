"""Additions and removals. Slow work is prepared before the writer's lock is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import as_string_ids, integer_ids
from pcpq.io.streams import Stream
from pcpq.search.snapshot import Snapshot
from pcpq.segment.attributes import Attributes, as_table, same_rows
from pcpq.segment.encoded_rows import EncodedRows, EncodedRowsBuilder
from pcpq.segment.ids import GivenIds, given_ids, refuse_other_kind
from pcpq.segment.list_statistics import ListStatistics
from pcpq.segment.part import Part
from pcpq.segment.segment import Segment
from pcpq.segment.trained import Trained
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


class Insertion:
    """An addition of one segment. Ids that the index assigns count from 0 until `apply` shifts them."""

    def __init__(self, segment: Segment, ids: GivenIds, replacing: bool) -> None:
        self._segment, self._ids, self._replacing = segment, ids, replacing
        self._rows = RowsOfIds(ids.given)
        self._first = 0

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
            self._refuse_known(contents.snapshot, self._there(contents.snapshot, 0))

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
        before = snapshot.without_rows(there)
        if segment.attributes is not None:
            refuse_other_columns(before, segment.attributes)
        if not self._ids.are_numbers:
            segment = replace(segment, ids=segment.ids + first)
        after = before.including(segment)
        return Contents(after, self._ids.kind, max(next_id, int(segment.ids.max()) + 1))

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
