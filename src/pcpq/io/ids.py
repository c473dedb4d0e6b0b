"""Ids as users give them: the checks of their type, kind and number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Ids
from pcpq.io.foreign_arrays import as_array


def integer_ids(ids: Any) -> NDArray[Any]:
    """Ids as an array, or a ValueError if they are not integers; none at all may be of any type.

    What is too large for an id is -1, which is none either.
    """
    given = as_array(ids, "ids")
    if given.dtype == object:  # integers that may be missing, if none is
        given = np.array(given.tolist())
    if given.size and given.dtype.kind not in "iu":
        raise ValueError(f"ids have dtype {given.dtype}; expected integers")
    if given.dtype == np.uint64:  # which NumPy compares with int64 as floats
        return np.where(given < 2**63, given, 2**64 - 1).astype(np.uint64).view(np.int64)
    return given


def as_ids(ids: Any, count: int) -> Ids:
    """(count,) int64, or a ValueError."""
    given = integer_ids(ids)
    if given.shape != (count,):
        raise ValueError(f"ids have shape {given.shape}; expected ({count},), one a vector")
    return given.astype(np.int64)


def refuse_duplicates(ids: Ids) -> None:
    """A ValueError that names the first id given twice, or a negative one."""
    ordered = np.sort(ids)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise ValueError(f"id {twice[0]} is given twice")
    if len(ordered) and ordered[0] < 0:
        raise ValueError(f"id {ordered[0]} is negative; -1 stands for no result")


KINDS = ("int", "str")


def kind_of(ids: Any) -> str:
    """Words or numbers?"""
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        return "int"
    first = next(iter(np.atleast_1d(np.asarray(ids, dtype=object))), None)
    return "str" if isinstance(first, str) else "int"


def is_id(value: Any, kind: str | None) -> bool:
    """Whether a value can be an id of this kind."""
    if kind == "str":
        return isinstance(value, str)
    return isinstance(value, (int, np.integer)) and 0 <= int(value) < 2**63


def as_asked(ids: Any) -> NDArray[Any]:
    """(n,) ids to look for, words as they are: NumPy's own would lose what ends in zeros."""
    return np.atleast_1d(np.array(as_words(ids), object) if kind_of(ids) == "str" else as_array(ids, "ids"))


def as_words(ids: Any, count: int | None = None) -> list[str]:
    """Ids that are words, so many if that is said, or a ValueError."""
    words: list[str] = np.atleast_1d(np.asarray(ids, dtype=object)).tolist()
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"id {word!r} is not a str, as the other ids are")
    if count is not None and len(words) != count:
        raise ValueError(f"{len(words)} ids for {count} vectors; expected one a vector")
    return words
