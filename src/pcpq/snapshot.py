"""What an index holds at one moment: segments, and which of their rows are still there.

Nothing here changes: whoever writes makes a new snapshot, and searches go on in the one they began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.arrays import Float32Array, Ids, integer_ids
from pcpq.names import Names, as_words
from pcpq.rows import RowsBuilder
from pcpq.scan import Allowed, Segment
from pcpq.trained import Trained


@dataclass(frozen=True, eq=False)
class Part:
    """A segment without what was removed from it."""

    segment: Segment
    count: int  # rows that are there
    live: NDArray[np.uint32] | None = None  # a bit a row, a word a block; None: all

    @classmethod
    def whole(cls, segment: Segment) -> Part:
        """All of a segment."""
        return cls(segment, len(segment))

    def has(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows are there; -1 is not."""
        there = rows >= 0
        if self.live is not None:
            words, bits = self.segment.blocks.bits(np.maximum(rows, 0))
            there &= (self.live[words] & bits) != 0
        return there

    def without(self, rows: NDArray[np.intp]) -> Part:
        """Less some rows that are there, each once."""
        if len(rows) == 0:
            return self
        live = (self.segment.every_row if self.live is None else self.live).copy()
        words, bits = self.segment.blocks.bits(rows)
        np.bitwise_and.at(live, words, ~bits)
        return replace(self, count=self.count - len(rows), live=live)

    def rows_there(self) -> NDArray[np.intp]:
        """Their numbers, ascending."""
        everyone = np.arange(len(self.segment))
        return everyone if self.live is None else everyone[self.has(everyone)]

    @property
    def everything(self) -> Allowed:
        """All that may be found."""
        return Allowed(self.count, self.live, self.count / max(len(self.segment), 1))

    def only(self, mask: NDArray[np.uint32]) -> Allowed:
        """What a mask leaves."""
        both = mask if self.live is None else mask & self.live
        return Allowed(int(np.unpackbits(both.view(np.uint8)).sum()), both, 0.0)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All parts of an index."""

    trained: Trained
    parts: tuple[Part, ...] = ()

    def __len__(self) -> int:
        return sum(part.count for part in self.parts)

    @cached_property
    def plans(self) -> dict[Any, Any]:
        """What searches for one query settled on, by what they were asked."""
        return {}

    @property
    def only_segment(self) -> Segment | None:
        """The segment, where there is one and nothing was removed from it."""
        one = len(self.parts) == 1 and self.parts[0].live is None
        return self.parts[0].segment if one else None

    def search(
        self,
        queries: Float32Array,
        k: int,
        probes: int,
        rerank: int,
        allowed: Sequence[Allowed],
        threads: int | None,
        counts: Ids | None = None,
        seconds: NDArray[np.float64] | None = None,
    ) -> tuple[Float32Array, Ids]:
        """As Segment.search, in all parts; -1 and -inf where there are fewer than k."""
        found = []
        for part, some in zip(self.parts, allowed, strict=True):
            if some.count == 0:
                continue
            here = None if counts is None else np.zeros_like(counts)
            own_k, own_rerank = min(k, some.count), min(rerank, some.count)
            found.append(part.segment.search(queries, own_k, probes, own_rerank, some, threads, here, seconds))
            if counts is not None and here is not None:
                counts += here
        return best_of(found, len(queries), k)

    def find(self, ids: Any) -> list[NDArray[np.intp]]:
        """For every part, the row of every id, -1 where it is not there; ids are all numbers or all words."""
        words = as_words(ids) if self.of_words and np.size(ids) else None
        numbers = np.atleast_1d(integer_ids(ids)) if words is None else np.empty(0, np.int64)
        found = []
        for part in self.parts:
            rows = part.segment.find(numbers) if words is None else part.segment.find_words(words)
            found.append(np.where(part.has(rows), rows, -1))
        return found

    @property
    def of_words(self) -> bool:
        """Whether ids are words."""
        return bool(self.parts) and self.parts[0].segment.names is not None

    def words(self, numbers: Ids) -> NDArray[np.object_]:
        """Words of numbers as searches return them, None where there is none."""
        words = np.full(numbers.size, None, object)
        flat = numbers.ravel()
        for part in self.parts:
            for place in np.flatnonzero((flat >= 0) & (part.segment.find(flat) >= 0)):
                words[place] = part.segment.word(int(flat[place]))
        return words.reshape(numbers.shape)

    def including(self, segment: Segment) -> Snapshot:
        """With another segment."""
        return Snapshot(self.trained, (*self.parts, Part.whole(segment)))

    def without(self, ids: Any) -> Snapshot:
        """Less some ids; those that are not there do not matter, nor do those given twice."""
        rows = self.find(ids)
        if not any((some >= 0).any() for some in rows):
            return self
        parts = [part.without(np.unique(some[some >= 0])) for part, some in zip(self.parts, rows, strict=True)]
        return Snapshot(self.trained, tuple(part for part in parts if part.count))

    def replaced(self, old: Sequence[Part], merged: Segment | None) -> Snapshot:
        """With one segment for parts that it was made of a while ago: what went since, goes again."""
        segments = {part.segment.name: part for part in old}
        now = {part.segment.name: part for part in self.parts}
        rest = tuple(part for part in self.parts if part.segment.name not in segments)
        if merged is None:
            return Snapshot(self.trained, rest)
        whole = Part.whole(merged)
        for key, part in segments.items():
            rows = part.rows_there()
            gone = rows if key not in now else rows[~now[key].has(rows)]
            whole = whole.without(merged.find(part.segment.ids[gone]))
        return Snapshot(self.trained, (*rest, whole) if whole.count else rest)


def best_of(found: list[tuple[Float32Array, Ids]], n: int, k: int) -> tuple[Float32Array, Ids]:
    """(n, k) the best of several searches, ties to the lower id."""
    if len(found) == 1 and found[0][0].shape[1] == k:
        return found[0]
    scores = np.concatenate([one[0] for one in found] + [np.full((n, k), -np.inf, np.float32)], axis=1)
    ids = np.concatenate([one[1] for one in found] + [np.full((n, k), -1, np.int64)], axis=1)
    # Nothing found comes last among equals.
    order = np.lexsort((ids, ids < 0, -scores), axis=1)[:, :k]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(ids, order, axis=1)


def merge(parts: Sequence[Part]) -> Segment | None:
    """One segment of all that is there, None of nothing."""
    trained = parts[0].segment.trained
    builder = RowsBuilder(sum(part.count for part in parts))
    names: list[tuple[Ids, Names | None]] = []
    for part in parts:
        segment, there = part.segment, part.rows_there()
        if len(there) == 0:
            continue
        rows = segment.rows()
        spread = segment.spread
        if part.live is not None:
            rows = rows.taken(there)
            before = np.maximum(np.diff(segment.blocks.rows), 1)
            shares = np.bincount(rows.lists, minlength=len(before)) / before
            spread = spread.scaled(shares, part.count / len(segment))
        builder.append(rows, spread)
        names.append(_names_of(segment, there))
    if builder.count == 0:
        return None
    rows, spread = builder.finish()
    return Segment.of(trained, rows, spread, _joined(names))


def statistics(snapshot: Snapshot) -> dict[str, Any]:
    """What Index.stats says."""
    trained, n = snapshot.trained, len(snapshot)
    segments = [part.segment for part in snapshot.parts]
    parts = {"lists": trained.partition.centers.nbytes}
    sizes = np.zeros(len(trained.partition), np.int64)
    for segment in segments:
        for name, size in segment.bytes_by_part().items():
            parts[name] = parts.get(name, 0) + size
        sizes += np.diff(segment.blocks.rows)
    mean, rows = sizes.mean(), int(sizes.sum())
    residual = sum(segment.spread.residuals for segment in segments) / max(rows, 1)
    return {
        "vectors": n,
        "dimensions": trained.dimensions,
        "segments": len(segments),
        "removed": rows - n,
        "lists": len(sizes),
        "bytes_per_vector": {name: size / max(n, 1) for name, size in parts.items()},
        "largest_list": int(sizes.max()),
        "empty_lists": int((sizes == 0).sum()),
        # 1 where all lists are equal: how many times more a random vector's list holds than the mean list.
        "imbalance": float((sizes**2).mean() / mean**2) if mean > 0 else 1.0,
        # 1 where vectors lie as near to their lists as those that lists were trained on; if more, refit.
        "drift": residual / trained.residual if rows and trained.residual > 0 else 1.0,
    }


def _names_of(segment: Segment, rows: NDArray[np.intp]) -> tuple[Ids, Names | None]:
    """The numbers of some rows, ascending, and their words in that order."""
    numbers = np.sort(segment.ids[rows])
    if segment.names is None:
        return numbers, None
    return numbers, segment.names.chosen(np.searchsorted(segment.ids, numbers, sorter=segment.by_id))


def _joined(parts: list[tuple[Ids, Names | None]]) -> Names | None:
    """Words of several segments, in the order of their numbers."""
    all_names = [names for _, names in parts if names is not None]
    if not all_names:
        return None
    numbers = np.concatenate([part[0] for part in parts])
    return Names.joined(all_names).chosen(np.argsort(numbers))
