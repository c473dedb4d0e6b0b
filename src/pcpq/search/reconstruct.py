"""Stored vectors and attributes of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import as_asked
from pcpq.search.condition import listed
from pcpq.search.snapshot import Snapshot, joined_attributes
from pcpq.segment.attributes import arrow
from pcpq.util.batches import slices

if TYPE_CHECKING:
    import pyarrow


def vectors_of(snapshot: Snapshot, ids: Any) -> Float32Array:
    """Return the (n, d) vectors of ids in the user's units: kept ones, or decoded if none are kept."""
    wanted = as_asked(ids)
    found = snapshot.find(wanted)
    refuse_missing(wanted, missing_in(found, len(wanted)))
    return vectors_of_rows(snapshot, len(wanted), found)


def vectors_of_rows(snapshot: Snapshot, count: int, found: Sequence[NDArray[np.intp]]) -> Float32Array:
    """Return (count, d) vectors, given for every part the row of each, -1 if it is in another part."""
    vectors = np.empty((count, snapshot.trained.dimensions), np.float32)
    for part, rows in zip(snapshot.parts, found, strict=True):
        present = rows >= 0
        if present.any():
            vectors[present] = part.segment.vectors(rows[present])
    vectors *= np.float32(snapshot.trained.unit)
    return vectors


def missing_in(found: Sequence[NDArray[np.intp]], count: int) -> NDArray[np.bool_]:
    """Return which of `count` ids have no row in any part."""
    missing = np.ones(count, bool)
    for rows in found:
        missing &= rows < 0
    return missing


def attributes_of(snapshot: Snapshot, ids: Any) -> Any:
    """Return a table of attributes with a row for every id."""
    wanted = as_asked(ids)
    found = snapshot.find(wanted)
    refuse_missing(wanted, missing_in(found, len(wanted)))
    return attributes_of_rows(snapshot, len(wanted), found)


def selected_attributes(snapshot: Snapshot, numbers: Ids, select: Any) -> pyarrow.Table:
    """Return some columns with a row for every integer id, in order; null where the id is -1."""
    numbers = numbers.ravel()
    if not snapshot.parts:
        names = [] if every_column(select) else names_of(select)
        return arrow().table({name: arrow().nulls(len(numbers)) for name in names})
    columns = selected_columns(snapshot.columns.names, select)
    return attributes_of_rows(snapshot, len(numbers), snapshot.find_numbers(numbers), columns)


def every_column(select: Any) -> bool:
    """Return whether `select` stands for all columns."""
    return select is True or (isinstance(select, str) and select == "*")


def names_of(select: Any, option: str = "select") -> list[Any]:
    """Return the distinct names in `select`, in order; raise a ValueError if there are none."""
    several = isinstance(select, Iterable) and not isinstance(select, (str, bytes))
    names = list(dict.fromkeys(select if several else [select])) if several or isinstance(select, str) else []
    if not names:
        raise ValueError(f"{option} is {select!r}; expected names of columns, or True for all")
    return names


def selected_columns(names: Sequence[str], select: Any, option: str = "select") -> list[str]:
    """Return the names of the selected columns; raise a ValueError that names those that do not exist."""
    if every_column(select):
        return list(names)
    wanted = names_of(select, option)
    unknown = [str(name) for name in wanted if name not in names]
    if unknown:
        raise ValueError(f"{option} names {listed(unknown)}; the columns are {listed(names)}")
    return wanted


def attributes_of_rows(
    snapshot: Snapshot, count: int, found: Sequence[NDArray[np.intp]], columns: list[str] | None = None
) -> Any:
    """Return a table with `count` rows, given for every part the row of each, -1 if it is in another part."""
    order, taken, done = np.full(count, -1, np.intp), [], 0
    for part, rows in zip(snapshot.parts, found, strict=True):
        present, attributes = np.flatnonzero(rows >= 0), part.segment.attributes
        own = None if attributes is None else attributes.table
        if own is not None and columns is not None:
            some = [name for name in columns if name in own.column_names]
            own = own.select(some) if some else None
        # Part by part: to take a few rows of a chunked table, Arrow would copy all of it.
        places = part.segment.places(rows[present])
        taken.append((None if own is None else own.take(places), len(present)))
        order[present] = np.arange(done, done + len(present))
        done += len(present)
    table = joined_attributes(taken)
    places = order if (order >= 0).all() else arrow().array(order, mask=order < 0)  # null: a row of nulls
    return (table if columns is None else table.select(columns)).take(places)


def batches_of(
    snapshot: Snapshot, ids: Callable[[Ids], NDArray[Any]], size: int, vectors: bool, columns: list[str] | None
) -> Iterator[tuple[Any, ...]]:
    """Yield ids, as `ids` converts integer ids, vectors and attributes of all rows, ascending by integer id."""
    numbers = snapshot.numbers()
    for some in slices(len(numbers), size):
        wanted = numbers[some]
        found, count = snapshot.find_numbers(wanted), len(wanted)
        batch: tuple[Any, ...] = (ids(wanted),)
        if vectors:
            batch += (vectors_of_rows(snapshot, count, found),)
        if columns is not None:
            batch += (attributes_of_rows(snapshot, count, found, columns),)
        yield batch


def refuse_missing(ids: NDArray[Any], missing: NDArray[np.bool_]) -> None:
    """Raise a KeyError that names ids that are not in the index, at most five."""
    gone = [str(one) for one in ids[missing][:6]]
    if len(gone) == 1:
        raise KeyError(f"id {gone[0]} is not in the index")
    if gone:
        raise KeyError(f"ids {', '.join(gone[:5])}{', ...' if len(gone) > 5 else ''} are not in the index")
