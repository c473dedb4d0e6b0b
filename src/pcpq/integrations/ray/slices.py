"""A range of consecutive lists of an index, which one shard holds.

A slice is a segment whose other lists are empty. It ranks all lists as the whole index does and scans its own.
Its candidates have the same scores, by code and reranked, and the same order of rows as in the whole index.

If vectors are in two lists, a slice has the rows of its first lists, and the second codes of these rows, in
whatever list they are: both codes of a row are in one slice, so the slice knows the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.integrations.ray.candidates import NOTHING, Candidates, candidates_of
from pcpq.io.arrays import Float32Array, Ids
from pcpq.ivf.probing import Probing
from pcpq.search.snapshot import Snapshot
from pcpq.search.top_k import top_k
from pcpq.segment.guard import Guard
from pcpq.segment.list_statistics import ListStatistics
from pcpq.segment.packing import MASK_ROWS, Blocks
from pcpq.segment.part import Part, rows_in
from pcpq.segment.second_codes import SecondCodes
from pcpq.segment.segment import Allowed, Mask, Scores, Segment, refuse_string_filter
from pcpq.store.serialization import guard_of
from pcpq.util.threads import map_threads


def bounds_of(snapshot: Snapshot, shards: int) -> Ids:
    """Return the (shards + 1,) bounds of ranges of lists with about the same number of rows."""
    n_lists = len(snapshot.trained.partition)
    counts = np.zeros(n_lists, np.int64)
    for part in snapshot.parts:
        counts += np.diff(part.segment.blocks.rows)
    ends = np.cumsum(counts)
    goals = ends[-1] * np.arange(1, shards) / shards
    cuts = np.searchsorted(ends, goals, side="left") + 1 if ends[-1] else np.zeros(shards - 1, np.int64)
    return np.concatenate([[0], np.minimum(cuts, n_lists), [n_lists]]).astype(np.int64)


@dataclass(frozen=True)
class WholeSpread:
    """Statistics of the whole segment, so that a slice estimates and rounds as the whole index does."""

    spread: ListStatistics
    counts: Ids

    @property
    def reach(self) -> float:
        """Upper bound of the lengths of decoded rows of the whole segment."""
        return self.spread.reach

    @property
    def residuals(self) -> float:
        """Sum of the residuals of all rows of the whole segment."""
        return self.spread.residuals

    @property
    def sums(self) -> NDArray[np.float64]:
        """Sums per list over all rows of the whole segment."""
        return self.spread.sums

    def shapes(self, counts: Ids, dimensions: int) -> Float32Array:
        """Return the shapes of the lists of the whole segment; the counts of the slice are ignored."""
        return self.spread.shapes(self.counts, dimensions)


class SliceChecks:
    """Checksums of a slice: those of its lists, and of the pages of kept vectors that it reranks with."""

    def __init__(self, native: _core.Guard, whole: Guard, first: int, count: int) -> None:
        self.native, self._whole, self._first = native, whole, first
        self._seen = np.zeros(count, bool)

    @property
    def path(self) -> Path:
        """The file of the whole segment."""
        return self._whole.path

    @property
    def list_checks(self) -> NDArray[np.uint32]:
        """The (L,) checksums of the lists of the whole segment."""
        return self._whole.list_checks

    def rows(self, rows: NDArray[np.integer[Any]]) -> None:
        """Check the kept vectors of reranked rows of the slice, each row once."""
        new = rows[~self._seen[rows]]
        if len(new):
            new = np.unique(new)
            self._whole.rows(new + self._first)
            self._seen[new] = True

    def ids(self) -> None:
        """Check the ids of all lists of the slice."""
        self.native.check_all()

    def everything(self) -> None:
        """Check all lists of the slice."""
        self.native.check_all()


class SlicedPart:
    """A range of lists of a part; `before` are slices of an earlier generation in the same shard."""

    def __init__(self, part: Part, lists: slice, before: Sequence[SlicedPart] = ()) -> None:
        whole, blocks = part.segment, part.segment.blocks
        self._whole: Segment = whole
        self._lists: slice = lists
        n_lists, size = len(blocks.rows) - 1, blocks.size
        first, last = int(blocks.rows[lists.start]), int(blocks.rows[lists.stop])
        first_block = int(blocks.places[lists.start]) // size
        end = (
            int(blocks.places[lists.stop - 1]) + last - int(blocks.rows[lists.stop - 1]) if last > first else 0
        )
        end_block = max(first_block, -(-end // size))
        rows = np.clip(blocks.rows - first, 0, last - first)
        places = np.clip(blocks.places - size * first_block, 0, size * (end_block - first_block))
        places[: lists.start] = 0
        places[lists.stop :] = size * (end_block - first_block)
        some, some_blocks = slice(first, last), slice(first_block, end_block)
        packed = whole.packed
        columns: dict[str, Any] = {
            name: None if column is None else column[some]
            for name, column in (
                ("gains", whole.gains),
                ("biases", whole.biases),
                ("kept", whole.kept),
                ("units", whole.units),
                ("ids", whole.ids),
            )
        }
        spread: Any = WholeSpread(whole.spread, whole.list_sizes)
        own_blocks = Blocks(rows, places, size)
        known = [one.segment.second for one in before if one._whole is whole and one._lists == lists]
        second = known[0] if known else second_of(whole, own_blocks, some)
        own = replace(
            whole,
            blocks=own_blocks,
            packed=packed._replace(
                blocks=packed.blocks[some if packed.unpacked else some_blocks],
                scales=None if packed.scales is None else packed.scales[some],
                biases=None if packed.biases is None else packed.biases[some],
            ),
            spread=spread,
            names=None,
            attributes=None,
            guard=None,
            second=second,
            **columns,
        )
        self.first, self.ids = first, own.ids
        guard = None
        if whole.guard is not None and last > first:
            checks = np.zeros(n_lists, np.uint32)
            checks[lists] = whole.guard.list_checks[lists]
            bare = replace(own, kept=np.empty((last - first, 0), np.uint8))
            native = guard_of(bare, str(whole.guard.path), last - first, checks, np.zeros(1, np.uint32))
            guard = SliceChecks(native, whole.guard, first, last - first)
        # Searches return row numbers in place of ids, because the lower row of equal candidates comes first.
        self.segment: Segment = replace(own, ids=np.arange(last - first), guard=guard)
        self.not_removed = self.segment.every_row
        if part.not_removed is not None:
            words = slice(first_block * size // MASK_ROWS, end_block * size // MASK_ROWS)
            self.not_removed = self.not_removed & part.not_removed[words]
        self.has_tombstones = part.has_tombstones
        self.share = part.count / max(len(whole), 1)

    def __len__(self) -> int:
        return len(self.segment)

    @property
    def everything(self) -> Allowed:
        """All rows of the slice without tombstones."""
        if not self.has_tombstones:
            return Allowed(len(self))
        return self.only(self.not_removed, self.share)

    def only(self, mask: Mask, share: float = 0.0) -> Allowed:
        """Return the rows that a mask allows, without tombstones."""
        both = mask & self.not_removed
        count = int(np.unpackbits(both.view(np.uint8)).sum())
        return Allowed(count, both, share, self.segment.second)

    @property
    def every_row(self) -> Mask:
        """Mask of all rows, including tombstones."""
        return self.segment.every_row

    def mask_by_id(self, chosen: NDArray[np.bool_]) -> Mask:
        """Return the mask of the rows of the slice that are chosen in the whole segment, by ascending id."""
        rows = np.empty_like(chosen)
        rows[self._whole.by_id] = chosen
        return self._mask_of_rows(rows)

    def _mask_of_rows(self, chosen: NDArray[np.bool_]) -> Mask:
        return self.segment.blocks.mask(chosen[self.first : self.first + len(self)])

    def rows_of(self, some: Allowed) -> NDArray[np.bool_]:
        """Return an (n,) mask of the whole segment that is True for these rows of the slice."""
        mask = self.not_removed if some.mask is None else some.mask
        chosen = np.zeros(len(self._whole), bool)
        chosen[self.first : self.first + len(self)] = rows_in(self.segment.blocks, mask)
        return chosen

    def mask_of_ids(self, ids: NDArray[Any]) -> Mask:
        """Return the mask of the rows that have one of these ids."""
        if self._whole.names is not None:
            return self._mask_of_rows(self._whole.rows_with(ids))
        if self.segment.guard is not None:
            self.segment.guard.ids()
        refuse_string_filter(ids)
        return self.segment.blocks.mask(np.isin(self.ids, ids))

    def best(
        self, search: Callable[..., tuple[Scores, Ids]], queries: Float32Array, k: int, most: int, more: int = 1
    ) -> tuple[Scores, Ids]:
        """Return the (n, k) best scores and ids that `search` finds, of equal scores the lower ids.

        `search` takes queries and up to `most` as k, and returns rows, of equal scores the lower ones. So it is
        asked for `more` than k, and for queries whose last scores are all equal again, for twice as many more.
        """
        count = min(k + more, most)
        scores, rows = search(queries, k=count)
        filled = rows >= 0
        if self.segment.guard is not None:
            self.segment.guard.rows(rows[filled])
        best_scores, best_ids = top_k(scores, np.where(filled, self.ids[np.maximum(rows, 0)], -1), k)
        tied = np.flatnonzero(filled[:, -1] & (scores[:, k - 1] == scores[:, -1]))
        if count < most and len(tied):
            best_scores[tied], best_ids[tied] = self.best(search, queries[tied], k, most, 2 * more)
        return best_scores, best_ids

    def candidates(
        self,
        queries: Float32Array,
        k: int,
        probing: Probing,
        rerank: int,
        allowed: Allowed,
        threads: int | None,
    ) -> Candidates:
        """Return the best `rerank` rows by code, or all rows if there are fewer, reranked."""
        shape = (len(queries), min(rerank, allowed.count))
        codes, found = np.full(shape, NOTHING, np.int32), np.full(shape, -1, np.int64)
        scores = np.full(shape, -np.inf)
        native = self.segment.searcher.search

        def search(some: slice) -> None:
            native(
                queries=queries[some],
                **probing.native(),
                rerank=shape[1],
                out_ids=found[some],
                out_scores=scores[some],
                allowed=allowed.mask,
                second_allowed=allowed.second,
                share=allowed.share,
                out_scanned=codes[some],
            )

        if shape[1]:
            map_threads(search, self.segment.tasks(len(queries), probing.probes, rerank, threads), threads)
            if self.segment.guard is not None:
                self.segment.guard.rows(found[found >= 0])
        return candidates_of(codes, found, scores, self.ids, k)


def second_of(whole: Segment, blocks: Blocks, rows: slice) -> SecondCodes | None:
    """Return the second codes of a range of rows, which are in `blocks`; None if there are none."""
    if whole.second is None or rows.start == rows.stop:
        return None
    if rows == slice(0, len(whole)):
        return whole.second
    return whole.second.of_rows(whole.trained.codebooks, blocks, rows)


def sliced(snapshot: Snapshot, lists: slice, before: Sequence[SlicedPart] = ()) -> Sequence[SlicedPart]:
    """Return a range of lists of all parts; what is unchanged is taken from slices of an earlier generation."""
    return tuple(SlicedPart(part, lists, before) for part in snapshot.parts)
