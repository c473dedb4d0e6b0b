"""Stored vectors and attributes of ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array
from pcpq.io.ids import as_asked
from pcpq.search.snapshot import Snapshot, joined_attributes


def vectors_of(snapshot: Snapshot, ids: Any) -> Float32Array:
    """Return the (n, d) vectors of ids in the user's units: kept ones, or decoded if none are kept."""
    wanted = as_asked(ids)
    found = np.empty((len(wanted), snapshot.trained.dimensions), np.float32)
    missing = np.ones(len(wanted), bool)
    for part, rows in zip(snapshot.parts, snapshot.find(wanted), strict=True):
        present = rows >= 0
        if present.any():
            found[present] = part.segment.vectors(rows[present])
        missing &= ~present
    refuse_missing(wanted, missing)
    found *= np.float32(snapshot.trained.unit)
    return found


def attributes_of(snapshot: Snapshot, ids: Any) -> Any:
    """Return a table of attributes with a row for every id."""
    wanted = as_asked(ids)
    order, taken, count = np.full(len(wanted), -1, np.intp), [], 0
    for part, rows in zip(snapshot.parts, snapshot.find(wanted), strict=True):
        present, attributes = np.flatnonzero(rows >= 0), part.segment.attributes
        # Part by part: to take a few rows of a chunked table, Arrow would copy all of it.
        places = part.segment.places(rows[present])
        taken.append((None if attributes is None else attributes.table.take(places), len(present)))
        order[present] = np.arange(count, count + len(present))
        count += len(present)
    refuse_missing(wanted, order < 0)
    return joined_attributes(taken).take(order)


def refuse_missing(ids: NDArray[Any], missing: NDArray[np.bool_]) -> None:
    """Raise a KeyError that names the first id that is not in the index."""
    if missing.any():
        raise KeyError(f"id {ids[missing][0]!s} is not in the index")
