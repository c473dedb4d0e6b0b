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


class NewIds(NamedTuple):
    """Ids of vectors that are added."""

    given: NDArray[Any]  # as users have them
    numbers: Ids
    names: Names | None
    kind: str


def new_ids(ids: Any, count: int, kind: str | None, next_number: int) -> NewIds:
    """Numbers for so many vectors, and their words if ids are; given twice is an error.

    `kind` is that of the index, None if it has no ids yet; without ids, numbers count on from `next_number`.
    """
    given_kind = "int" if ids is None else kind_of(ids)
    if kind is not None and given_kind != kind:
        raise ValueError(f"ids are {given_kind}, but those of the index are {kind}; an index has one kind")
    counted = ids is None or given_kind == "str"
    if counted and next_number + count > 2**63:
        raise ValueError(f"no numbers are left after {next_number - 1}" + ("; give ids" if ids is None else ""))
    # Counted from 0: NumPy makes floats of a range that ends at 2^63.
    numbers = next_number + np.arange(count, dtype=np.int64) if counted else as_ids(ids, count)
    if given_kind == "int":
        refuse_duplicates(numbers)
        return NewIds(numbers, numbers, None, given_kind)
    words = as_words(ids, count)
    seen: set[str] = set()
    for word in words:
        if word in seen:
            raise ValueError(f"id {word!r} is given twice")
        seen.add(word)
    return NewIds(np.array(words, object), numbers, Names.of(words), given_kind)
