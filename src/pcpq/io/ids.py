"""Checks of the ids that users pass: type, kind and number."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Ids
from pcpq.io.foreign_arrays import as_array

LARGEST = (1 << 63) - 1


def integer_ids(ids: Any) -> NDArray[Any]:
    """Return ids as an array, or raise a ValueError unless they are integers; an empty array has any dtype.

    Values that are too large for an id become -1, which no vector has.
    """
    given = as_array(ids, "ids")
    if given.dtype == object:  # a nullable integer column without nulls
        given = np.array(given.tolist())
    if given.size and given.dtype.kind not in "iu":
        raise ValueError(problem_of(ids, given.dtype))
    if given.dtype == np.uint64:  # NumPy compares uint64 and int64 as floats
        return np.where(given < 2**63, given, 2**64 - 1).astype(np.uint64).view(np.int64)
    return given


def problem_of(ids: Any, dtype: np.dtype[Any]) -> str:
    """Return why ids are not integers: the first one that is not, if they are objects."""
    if isinstance(ids, np.ndarray) and ids.dtype != object:
        hint = "; use ids.astype(np.int64)" if dtype.kind == "f" else ""
        return f"ids have dtype {dtype}; expected integers or strings{hint}"
    for place, some_id in enumerate(np.asarray(ids, dtype=object).ravel().tolist()):
        if isinstance(some_id, UUID):
            return f"ids[{place}] is {some_id!r}; expected integers or strings: use str(id)"
        if isinstance(some_id, bool) or not isinstance(some_id, (int, np.integer)):
            return (
                f"ids[{place}] is {some_id!r}, a {type(some_id).__name__}; expected integers, or strings alone"
            )
        if not 0 <= some_id <= LARGEST:
            return out_of_range(int(some_id))
    return f"ids have dtype {dtype}; expected integers or strings"


def out_of_range(some_id: int) -> str:
    """Return why an integer cannot be an id."""
    if some_id < 0:
        return f"id {some_id} is negative; -1 stands for no result"
    return f"id {some_id} is above 2^63 - 1, the largest integer id; use strings: str(id)"


def as_ids(ids: Any, count: int) -> Ids:
    """Return ids as (count,) int64, or raise a ValueError."""
    given = integer_ids(ids)
    if given.size and given.min() < 0 and np.asarray(ids).dtype == np.uint64:
        raise ValueError(out_of_range(int(np.asarray(ids).max())))
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
        raise ValueError(out_of_range(int(ordered[0])))


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
            hint = ": use str(id)" if isinstance(string, UUID) else ""
            raise ValueError(f"id {string!r} is not a str, as the other ids are{hint}")
    if count is not None and len(strings) != count:
        raise ValueError(f"{len(strings)} ids for {count} vectors; expected one per vector")
    return strings
