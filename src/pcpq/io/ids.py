"""Checks of the ids that users pass: type, kind and number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Ids
from pcpq.io.foreign_arrays import as_array


def integer_ids(ids: Any) -> NDArray[Any]:
    """Return ids as an array, or raise a ValueError unless they are integers; an empty array has any dtype.

    Values that are too large for an id become -1, which no vector has.
    """
    given = as_array(ids, "ids")
    if given.dtype == object:  # a nullable integer column without nulls
        given = np.array(given.tolist())
    if given.size and given.dtype.kind not in "iu":
        raise ValueError(f"ids have dtype {given.dtype}; expected integers")
    if given.dtype == np.uint64:  # NumPy compares uint64 and int64 as floats
        return np.where(given < 2**63, given, 2**64 - 1).astype(np.uint64).view(np.int64)
    return given


def as_ids(ids: Any, count: int) -> Ids:
    """Return ids as (count,) int64, or raise a ValueError."""
    given = integer_ids(ids)
    if given.shape != (count,):
        raise ValueError(f"ids have shape {given.shape}; expected ({count},), one per vector")
    return given.astype(np.int64)


def refuse_duplicates(ids: Ids) -> None:
    """Raise a ValueError that names the first duplicate id, or a negative id."""
    ordered = np.sort(ids)
    duplicates = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(duplicates):
        raise ValueError(f"id {duplicates[0]} is given twice")
    if len(ordered) and ordered[0] < 0:
        raise ValueError(f"id {ordered[0]} is negative; -1 stands for no result")


KINDS = ("int", "str")


def kind_of(ids: Any) -> str:
    """Return the kind of ids: "str" for string ids, otherwise "int"."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        return "int"
    first = next(iter(np.atleast_1d(np.asarray(ids, dtype=object))), None)
    return "str" if isinstance(first, str) else "int"


def is_id(value: Any, kind: str | None) -> bool:
    """Return whether a value can be an id of this kind."""
    if kind == "str":
        return isinstance(value, str)
    return isinstance(value, (int, np.integer)) and 0 <= int(value) < 2**63


def as_asked(ids: Any) -> NDArray[Any]:
    """Return ids to look up as an (n,) array; string ids become objects.

    NumPy's own strings would lose trailing zero characters.
    """
    return np.atleast_1d(
        np.array(as_string_ids(ids), object) if kind_of(ids) == "str" else as_array(ids, "ids")
    )


def as_string_ids(ids: Any, count: int | None = None) -> list[str]:
    """Return string ids as a list of `count` strings (any number if None), or raise a ValueError."""
    strings: list[str] = np.atleast_1d(np.asarray(ids, dtype=object)).tolist()
    for string in strings:
        if not isinstance(string, str):
            raise ValueError(f"id {string!r} is not a str, as the other ids are")
    if count is not None and len(strings) != count:
        raise ValueError(f"{len(strings)} ids for {count} vectors; expected one per vector")
    return strings
