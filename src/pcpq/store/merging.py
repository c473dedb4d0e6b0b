"""Merging of several segments into one, without their deleted rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.errors import FormatError
from pcpq.io.arrays import Ids
from pcpq.segment.attributes import Attributes, same_rows
from pcpq.segment.encoded_rows import EncodedRowsBuilder
from pcpq.segment.ids import StringIds
from pcpq.segment.part import Part
from pcpq.segment.segment import Segment


def merge(parts: Sequence[Part]) -> Segment | None:
    """Merge parts into one segment; return None if all rows are deleted."""
    return segment_of_rows([(part.segment, part.rows_left()) for part in parts])


def segment_of_rows(chosen: Sequence[tuple[Segment, NDArray[np.intp]]]) -> Segment | None:
    """Return a segment of some rows of several segments, with ids and attributes; None if there are none."""
    builder = EncodedRowsBuilder(sum(len(rows) for _, rows in chosen))
    labels = []
    for segment, some in chosen:
        if len(some) == 0:
            continue
        rows = segment.rows()
        spread = segment.spread
        if len(some) < len(segment):
            rows = rows.taken(some)
            before = np.maximum(segment.list_sizes, 1)
            left = np.bincount(rows.lists, minlength=len(before))
            if rows.second_lists is not None:
                left += np.bincount(rows.second_lists, minlength=len(before))
            shares = left / before
            spread = spread.scaled(shares, len(some) / len(segment))
        builder.append(rows, spread)
        labels.append(Labels.of(segment, some))
    if builder.count == 0:
        return None
    encoded, spread = builder.finish()
    together = Labels.joined(labels)
    refuse_equal(together.numbers, [segment for segment, _ in chosen])
    return Segment.of(chosen[0][0].trained, encoded, spread, together.names, together.attributes)


def refuse_equal(numbers: Ids, segments: Sequence[Segment]) -> None:
    """Raise a FormatError if sorted ids contain an id twice, which is possible in damaged files only."""
    twice = numbers[1:][numbers[1:] == numbers[:-1]]
    if len(twice):
        guards = [(segment, segment.guard) for segment in segments]
        files = [str(guard.path) for segment, guard in guards if guard and (segment.ids == twice[0]).any()]
        raise FormatError(f"{', '.join(files)}: id {twice[0]} occurs twice")


class Labels(NamedTuple):
    """Ascending integer ids of rows, with their string ids and attributes."""

    numbers: Ids
    names: StringIds | None
    attributes: Attributes | None

    @classmethod
    def of(cls, segment: Segment, rows: NDArray[np.intp]) -> Labels:
        """Return the labels of some rows of a segment."""
        rows = rows[np.argsort(segment.ids[rows])]
        places = segment.places(rows)
        names = None if segment.names is None else segment.names.chosen(places)
        attributes = segment.attributes
        if attributes is not None:
            attributes = Attributes.of(attributes.table.take(places))
        return cls(segment.ids[rows], names, attributes)

    @classmethod
    def joined(cls, parts: Sequence[Labels]) -> Labels:
        """Return the labels of several segments, sorted by id."""
        numbers = np.concatenate([part.numbers for part in parts])
        order = np.argsort(numbers)
        all_names = [part.names for part in parts if part.names is not None]
        names = StringIds.joined(all_names).chosen(order) if all_names else None
        attributes = None
        if any(part.attributes is not None for part in parts):
            tables = [(part.attributes and part.attributes.table, len(part.numbers)) for part in parts]
            attributes = Attributes.of(same_rows(tables).take(order))
        return cls(numbers[order], names, attributes)
