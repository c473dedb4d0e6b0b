"""Ids as users have them, whole numbers or words, and as searches have them: numbers always.

Words are numbered in the order in which they come; `Names` tells which number has which word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Bytes, Ids
from pcpq.io.ids import as_ids, as_words, kind_of, refuse_duplicates
from pcpq.util.lazy import once


@dataclass(frozen=True, eq=False)
class Names:
    """Words of n numbers, those of the lowest number first."""

    text: Bytes  # all of them in UTF-8, one after the other
    ends: NDArray[np.int64]  # (n,) where each ends
    hashes: NDArray[np.uint64]  # (n,) what they are found by

    @classmethod
    def of(cls, words: Sequence[str]) -> Names:
        """Words as given."""
        parts = [word.encode("utf-8", "surrogatepass") for word in words]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        hashes = np.array([hash_of(part) for part in parts], np.uint64)
        return cls(np.frombuffer(b"".join(parts), np.uint8), ends, hashes)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return self.text.nbytes + self.ends.nbytes + self.hashes.nbytes

    def __getitem__(self, place: int) -> str:
        """One word."""
        return str(self._bytes(place), "utf-8", "surrogatepass")

    def places(self, words: Sequence[str]) -> NDArray[np.intp]:
        """The place of every word, -1 where it is none of these."""
        parts = [word.encode("utf-8", "surrogatepass") for word in words]
        hashes = np.array([hash_of(part) for part in parts], np.uint64)
        first, last = (np.searchsorted(self._sorted_hashes, hashes, side=side) for side in ("left", "right"))
        found = np.full(len(parts), -1, np.intp)
        for number in np.flatnonzero(first < last):
            for place in self._by_hash[first[number] : last[number]]:
                if self._bytes(place) == parts[number]:
                    found[number] = place
        return found

    @classmethod
    def joined(cls, parts: Sequence[Names]) -> Names:
        """All words of several, one after the other."""
        starts = np.cumsum([0, *(part.text.nbytes for part in parts[:-1])])
        ends = np.concatenate([part.ends + start for part, start in zip(parts, starts, strict=True)])
        text = np.concatenate([part.text for part in parts])
        return cls(text, ends, np.concatenate([part.hashes for part in parts]))

    def chosen(self, places: NDArray[np.intp]) -> Names:
        """Some words, in this order."""
        starts = np.concatenate([[0], self.ends[:-1]])[places]
        lengths = self.ends[places] - starts
        ends = np.cumsum(lengths)
        # Byte i of the text comes from where its word was, and so far into it.
        text = self.text[np.arange(lengths.sum()) + np.repeat(starts - (ends - lengths), lengths)]
        return Names(text, ends, self.hashes[places])

    @once
    def _by_hash(self) -> NDArray[np.intp]:
        return np.argsort(self.hashes, kind="stable")

    @once
    def _sorted_hashes(self) -> NDArray[np.uint64]:
        return self.hashes[self._by_hash]

    def _bytes(self, place: int) -> bytes:
        start = self.ends[place - 1] if place > 0 else 0
        return self.text[start : self.ends[place]].tobytes()


def hash_of(word: bytes) -> int:
    """64 bits that are the same in every process."""
    return int.from_bytes(blake2b(word, digest_size=8).digest(), "little")


@dataclass(frozen=True)
class GivenIds:
    """Ids for vectors that are to be added, checked; the index has no numbers for them yet."""

    count: int
    kind: str
    given: NDArray[Any] | None  # as users have them; None: they are counted up
    names: Names | None  # of string ids

    @property
    def are_numbers(self) -> bool:
        """Whether ids are the numbers themselves; if not, the index chooses the numbers."""
        return self.given is not None and self.kind == "int"

    def first_number(self, next_number: int) -> int:
        """The first of the numbers that the index chooses, or a ValueError if there are not enough left."""
        if next_number + self.count > 2**63:
            hint = "; give ids" if self.given is None else ""
            raise ValueError(f"no numbers are left after {next_number - 1}{hint}")
        return next_number

    def numbers(self, first: int) -> Ids:
        """(count,) the ids themselves if they are numbers, or else those that follow `first`."""
        if self.given is not None and self.kind == "int":
            return self.given
        # Counted from 0: NumPy makes floats of a range that ends at 2^63.
        return first + np.arange(self.count, dtype=np.int64)


def given_ids(ids: Any, count: int, kind: str | None) -> GivenIds:
    """Ids for so many vectors, None to count up; a ValueError if one is given twice.

    `kind` is that of the index, None if it has no ids yet.
    """
    given_kind = "int" if ids is None else kind_of(ids)
    refuse_other_kind(given_kind, kind)
    if ids is None:
        return GivenIds(count, given_kind, None, None)
    if given_kind == "int":
        numbers = as_ids(ids, count)
        refuse_duplicates(numbers)
        return GivenIds(count, given_kind, numbers, None)
    words = as_words(ids, count)
    seen: set[str] = set()
    for word in words:
        if word in seen:
            raise ValueError(f"id {word!r} is given twice")
        seen.add(word)
    return GivenIds(count, given_kind, np.array(words, object), Names.of(words))


def refuse_other_kind(given: str, kind: str | None) -> None:
    """A ValueError unless ids are of the kind that the index has, if it has one."""
    if kind is not None and given != kind:
        raise ValueError(f"ids are {given}, but those of the index are {kind}; an index has one kind")


class NewIds(NamedTuple):
    """Ids of vectors that are added."""

    given: NDArray[Any]  # as users have them
    numbers: Ids
    names: Names | None
    kind: str


def new_ids(ids: Any, count: int, kind: str | None, next_number: int) -> NewIds:
    """Ids for so many vectors, with their numbers; those that the index chooses count up from `next_number`."""
    checked = given_ids(ids, count, kind)
    first = 0 if checked.are_numbers else checked.first_number(next_number)
    numbers = checked.numbers(first)
    return NewIds(numbers if checked.given is None else checked.given, numbers, checked.names, checked.kind)
