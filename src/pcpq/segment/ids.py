"""Ids of vectors: integers or strings for users, always integers inside searches.

String ids are numbered in the order in which they are added; `StringIds` maps these numbers to the strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Bytes, Ids
from pcpq.io.ids import as_ids, as_string_ids, kind_of, refuse_duplicates
from pcpq.util.lazy import lazy


@dataclass(frozen=True, eq=False)
class StringIds:
    """The n string ids of a segment, in ascending order of their integer ids."""

    text: Bytes  # all strings in UTF-8, concatenated
    ends: NDArray[np.int64]  # (n,) end of each string in the text
    hashes: NDArray[np.uint64]  # (n,) hash of each string, for lookup

    @classmethod
    def of(cls, strings: Sequence[str]) -> StringIds:
        """Return the string ids of a sequence of strings."""
        parts = [string.encode("utf-8", "surrogatepass") for string in strings]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        hashes = np.array([hash_of(part) for part in parts], np.uint64)
        return cls(np.frombuffer(b"".join(parts), np.uint8), ends, hashes)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.text.nbytes + self.ends.nbytes + self.hashes.nbytes

    def __getitem__(self, place: int) -> str:
        """Return the string id at a place."""
        return str(self._bytes(place), "utf-8", "surrogatepass")

    def places(self, strings: Sequence[str]) -> NDArray[np.intp]:
        """Return the place of every string, -1 if it is not an id."""
        parts = [string.encode("utf-8", "surrogatepass") for string in strings]
        hashes = np.array([hash_of(part) for part in parts], np.uint64)
        first, last = (np.searchsorted(self._sorted_hashes, hashes, side=side) for side in ("left", "right"))
        found = np.full(len(parts), -1, np.intp)
        for number in np.flatnonzero(first < last):
            for place in self._by_hash[first[number] : last[number]]:
                if self._bytes(place) == parts[number]:
                    found[number] = place
        return found

    @classmethod
    def joined(cls, parts: Sequence[StringIds]) -> StringIds:
        """Return the string ids of several segments, concatenated."""
        starts = np.cumsum([0, *(part.text.nbytes for part in parts[:-1])])
        ends = np.concatenate([part.ends + start for part, start in zip(parts, starts, strict=True)])
        text = np.concatenate([part.text for part in parts])
        return cls(text, ends, np.concatenate([part.hashes for part in parts]))

    def chosen(self, places: NDArray[np.intp]) -> StringIds:
        """Return the string ids at some places, in this order."""
        starts = np.concatenate([[0], self.ends[:-1]])[places]
        lengths = self.ends[places] - starts
        ends = np.cumsum(lengths)
        # Source of every byte: the old start of its string plus the offset within the string.
        text = self.text[np.arange(lengths.sum()) + np.repeat(starts - (ends - lengths), lengths)]
        return StringIds(text, ends, self.hashes[places])

    @lazy
    def _by_hash(self) -> NDArray[np.intp]:
        return np.argsort(self.hashes, kind="stable")

    @lazy
    def _sorted_hashes(self) -> NDArray[np.uint64]:
        return self.hashes[self._by_hash]

    def _bytes(self, place: int) -> bytes:
        start = self.ends[place - 1] if place > 0 else 0
        return self.text[start : self.ends[place]].tobytes()


def hash_of(string: bytes) -> int:
    """Return a 64-bit hash that is the same in every process."""
    return int.from_bytes(blake2b(string, digest_size=8).digest(), "little")


@dataclass(frozen=True)
class GivenIds:
    """Checked ids of vectors to be added, before the index has chosen integer ids for strings."""

    count: int
    kind: str
    given: NDArray[Any] | None  # integers or strings, as given; None: the index counts up
    names: StringIds | None  # of string ids

    @property
    def are_numbers(self) -> bool:
        """Whether the given ids are integers; otherwise the index chooses the integer ids."""
        return self.given is not None and self.kind == "int"

    def first_number(self, next_number: int) -> int:
        """Return the first integer id that the index chooses; raise a ValueError if too few are left."""
        if next_number + self.count > 2**63:
            hint = "; give ids" if self.given is None else ""
            raise ValueError(f"no integer ids are left after {next_number - 1}{hint}")
        return next_number

    def numbers(self, first: int) -> Ids:
        """Return the (count,) integer ids: the given ones, or those that count up from `first`."""
        if self.given is not None and self.kind == "int":
            return self.given
        # Counted from 0 and shifted: NumPy makes floats of a range that ends at 2^63.
        return first + np.arange(self.count, dtype=np.int64)


def given_ids(ids: Any, count: int, kind: str | None) -> GivenIds:
    """Return the checked ids of `count` vectors; ids are None to count up.

    `kind` is the kind of ids of the index, None if it has none yet. Raises a ValueError if an id is given twice
    or is of another kind.
    """
    given_kind = "int" if ids is None else kind_of(ids)
    refuse_other_kind(given_kind, kind)
    if ids is None:
        return GivenIds(count, given_kind, None, None)
    if given_kind == "int":
        numbers = as_ids(ids, count)
        refuse_duplicates(numbers)
        return GivenIds(count, given_kind, numbers, None)
    strings = as_string_ids(ids, count)
    seen: set[str] = set()
    for string in strings:
        if string in seen:
            raise ValueError(f"id {string!r} is given twice")
        seen.add(string)
    return GivenIds(count, given_kind, np.array(strings, object), StringIds.of(strings))


def refuse_other_kind(given: str, kind: str | None) -> None:
    """Raise a ValueError if ids are of another kind than those of the index."""
    if kind is not None and given != kind:
        raise ValueError(f"ids are {given}, but those of the index are {kind}; an index has one kind")


class NewIds(NamedTuple):
    """Ids of vectors that are added, with their integer ids."""

    given: NDArray[Any]  # integers or strings, as given
    numbers: Ids
    names: StringIds | None
    kind: str


def new_ids(ids: Any, count: int, kind: str | None, next_number: int) -> NewIds:
    """Return the ids of `count` vectors with their integer ids; chosen ones count up from `next_number`."""
    checked = given_ids(ids, count, kind)
    first = 0 if checked.are_numbers else checked.first_number(next_number)
    numbers = checked.numbers(first)
    return NewIds(numbers if checked.given is None else checked.given, numbers, checked.names, checked.kind)
