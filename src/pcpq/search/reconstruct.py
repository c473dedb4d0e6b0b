"""What a snapshot holds: the vectors and attributes of ids, and how all of it lies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array
from pcpq.io.ids import as_asked
from pcpq.search.snapshot import Snapshot, joined_attributes


def vectors_of(snapshot: Snapshot, ids: Any) -> Float32Array:
    """(n, d) as kept, or decoded where nothing is, in the user's units."""
    wanted = as_asked(ids)
    found = np.empty((len(wanted), snapshot.trained.dimensions), np.float32)
    missing = np.ones(len(wanted), bool)
    for part, rows in zip(snapshot.parts, snapshot.find(wanted), strict=True):
        there = rows >= 0
        if there.any():
            found[there] = part.segment.vectors(rows[there])
        missing &= ~there
    refuse_missing(wanted, missing)
    found *= np.float32(snapshot.trained.unit)
    return found


def attributes_of(snapshot: Snapshot, ids: Any) -> Any:
    """A table with a row for every id."""
    wanted = as_asked(ids)
    order, taken, count = np.full(len(wanted), -1, np.intp), [], 0
    for part, rows in zip(snapshot.parts, snapshot.find(wanted), strict=True):
        there, attributes = np.flatnonzero(rows >= 0), part.segment.attributes
        # Part by part: Arrow copies all of a table in pieces to take a few rows of it.
        places = part.segment.places(rows[there])
        taken.append((None if attributes is None else attributes.table.take(places), len(there)))
        order[there] = np.arange(count, count + len(there))
        count += len(there)
    refuse_missing(wanted, order < 0)
    return joined_attributes(taken).take(order)


def refuse_missing(ids: NDArray[Any], missing: NDArray[np.bool_]) -> None:
    """A KeyError that names the first id that is not there."""
    if missing.any():
        raise KeyError(f"id {ids[missing][0]!s} is not in the index")
