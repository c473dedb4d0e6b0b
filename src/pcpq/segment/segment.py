"""Segments, the parts of an index: immutable arrays, searched by one native call per batch of queries."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, fields, replace
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.errors import FormatError
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import as_string_ids, kind_of
from pcpq.ivf.probing import Probing
from pcpq.quantizers.codes import Codes
from pcpq.segment.attributes import Attributes
from pcpq.segment.codebooks import PackedCodes
from pcpq.segment.encoded_rows import EncodedRows
from pcpq.segment.guard import Guard
from pcpq.segment.ids import StringIds
from pcpq.segment.kept_vectors import read_rows
from pcpq.segment.list_statistics import ListStatistics
from pcpq.segment.packing import Blocks
from pcpq.segment.second_codes import SecondCodes
from pcpq.segment.trained import Trained
from pcpq.util.batches import slices
from pcpq.util.lazy import lazy
from pcpq.util.threads import available_threads, map_threads

# Scores before rounding to float32: the results of parts are merged by these.
Scores = NDArray[np.float64]
# One bit per place of a block, 32 bits per word.
Mask = NDArray[np.uint32]
# Queries per task of a thread: native code reads the codes of a list once for all of them.
QUERIES_TOGETHER = 512
# Queries per call of a single thread: Ctrl-C is noticed between calls.
QUERIES_PER_CALL = 4096
# Multiplications and look-ups, 40 per ns. Below 4 ms of them one thread is as fast, because others wake up late
# on a busy machine. A task takes at least 2 ms, so that its queries share the reading of lists.
LEAST_THREADED = 160e6
LEAST_TASK = 80e6
# Rows read at once to find the longest: they stay in the cache.
ROWS_READ = 256


@dataclass(frozen=True)
class Allowed:
    """The rows of a segment that a search may return."""

    count: int
    mask: Mask | None = None  # None: all
    share: float = 1.0  # approximate share of the rows of every list; 0: unknown
    copies: SecondCodes | None = None  # those of the segment, if its vectors are in two lists

    @lazy
    def second(self) -> Mask | None:
        """The mask of the same rows in their second lists, made when a scan needs it."""
        return None if self.copies is None or self.mask is None else self.copies.mask(self.mask)


@dataclass(frozen=True, eq=False)
class Segment:
    """Encoded vectors in list order, packed for the scan; a segment never changes."""

    trained: Trained
    blocks: Blocks
    packed: PackedCodes
    spread: ListStatistics
    gains: NDArray[np.float16] | None
    biases: Float32Array | None
    kept: NDArray[np.generic]
    units: Float32Array | None
    ids: Ids
    names: StringIds | None = None
    attributes: Attributes | None = None
    name: str = field(default_factory=lambda: uuid4().hex)
    guard: Guard | None = None  # None: the arrays were not read from a file
    second: SecondCodes | None = None  # None: vectors are in one list

    @classmethod
    def of(
        cls,
        trained: Trained,
        rows: EncodedRows,
        spread: ListStatistics,
        names: StringIds | None = None,
        attributes: Attributes | None = None,
    ) -> Segment:
        """Sort rows by list, in place, and pack their codes into a segment."""
        rows.sort_by_list()
        n_lists, books = len(trained.partition), trained.codebooks
        blocks = Blocks.fitting(rows.counts(n_lists), books.block_rows)
        packed, second = books.pack(blocks, rows), None
        if (copies := rows.copies()) is not None:
            places = Blocks.of(copies.counts(n_lists), blocks.dense, blocks.size)
            second = SecondCodes.of(books, blocks, places, copies)
        return cls(
            trained=trained,
            blocks=blocks,
            packed=packed,
            second=second,
            spread=spread,
            gains=rows.gains,
            biases=rows.biases,
            kept=rows.kept,
            units=rows.units,
            ids=rows.ids,
            names=names,
            attributes=attributes,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without lazy attributes."""
        self.verify()
        second = None if self.second is None else replace(self.second, guard=None)
        state = {part.name: getattr(self, part.name) for part in fields(self)}
        return state | {"guard": None, "second": second}

    def verify(self) -> None:
        """Verify the checksums of all arrays that were read from a file."""
        if self.guard is not None:
            self.guard.everything()
        if self.second is not None:
            self.second.verify()

    def bytes_by_part(self) -> dict[str, int]:
        """Return the bytes of codes, corrections, kept vectors, ids and attributes."""
        copies = () if self.second is None else (self.second.packed.blocks, self.second.rows)
        parts = {
            "codes": (*self.packed, *copies),
            "corrections": (self.gains, self.biases),
            "kept": (self.kept, self.units),
            "ids": (self.ids, self.names),
            "attributes": (self.attributes,),
        }
        return {name: sum(0 if a is None else a.nbytes for a in arrays) for name, arrays in parts.items()}

    @property
    def list_sizes(self) -> NDArray[np.int64]:
        """The (L,) numbers of codes in each list: one per row, or two in different lists."""
        sizes: NDArray[np.int64] = np.diff(self.blocks.rows)
        return sizes if self.second is None else sizes + self.second.counts

    @lazy
    def every_row(self) -> NDArray[np.uint32]:
        """The mask of all rows, shared and therefore read-only."""
        return self.blocks.mask(np.ones(len(self), bool))

    @lazy
    def row_numbers(self) -> NDArray[np.int32]:
        """The (n,) numbers of all rows, ascending; made once, because an exact search takes hardly longer."""
        return np.arange(len(self), dtype=np.int32)

    @lazy
    def longest_kept(self) -> float:
        """The length of the longest kept vector, less the mean if euclidean: it bounds rounding errors."""
        read = np.empty((ROWS_READ, self.searcher.estimate_columns), np.float32)
        lengths = []
        for part in slices(len(self), ROWS_READ):
            rows = self.row_numbers[part]
            lengths.append(self.searcher.read_rows(rows=rows, out_rows=read[: len(rows)]))
        return float(np.max(lengths))

    @property
    def lists(self) -> NDArray[np.int32]:
        """The (n,) list of every row."""
        return self.blocks.row_lists()

    def lists_of_rows(self) -> list[NDArray[np.int32]]:
        """Return the (n,) first list of every row, and the second if there are second lists."""
        if self.second is None:
            return [self.lists]
        return [self.lists, self.second.lists_of_rows()]

    def rows(self) -> EncodedRows:
        """Return all rows with unpacked codes, in list order."""
        self.verify()
        books = self.trained.codebooks
        second: dict[str, Any] = {}
        codes, biases = books.unpack(self.blocks, self.packed)
        self._check_codes(codes)
        if self.second is not None:
            copies, copied_biases = self.second.unpacked(books)
            self._check_codes(copies)
            second = {
                "second_lists": self.second.lists_of_rows(),
                "second_codes": copies.codes,
                "second_scales": copies.scales,
                "second_bias_bytes": copied_biases,
            }
        return EncodedRows(
            **second,
            lists=self.lists,
            codes=codes.codes,
            scales=codes.scales,
            bias_bytes=biases,
            gains=self.gains,
            biases=self.biases,
            kept=self.kept,
            units=self.units,
            ids=self.ids,
        )

    def vectors(self, rows: NDArray[np.intp]) -> Float32Array:
        """Return (n, d) vectors of some rows in working units: kept ones, or decoded if none are kept."""
        if self.trained.keep is not None:
            if self.guard is not None:
                self.guard.rows(rows)
            return read_rows(self.kept[rows], None if self.units is None else self.units[rows])
        self.verify()
        books = self.trained.codebooks
        codes, _ = books.unpack(self.blocks, self.packed)
        self._check_codes(codes[rows])
        return self.trained.decode(books.expand(codes[rows]), self.lists[rows])

    def _check_codes(self, codes: Codes) -> None:
        """Raise a FormatError if codes of a file hold an index that is out of range."""
        if self.guard is None:
            return
        try:
            self.trained.codebooks.check(codes)
        except ValueError as error:
            raise FormatError(f"{self.guard.path}: {error}") from error

    def find(self, ids: NDArray[Any]) -> NDArray[np.intp]:
        """Return the row of every integer id, -1 if there is none."""
        places = np.searchsorted(self.ids, ids, sorter=self.by_id)
        rows = self.by_id[np.minimum(places, len(self.ids) - 1)].astype(np.intp)
        return np.where(self.ids[rows] == ids, rows, -1)

    def find_between(self, first: int, last: int) -> NDArray[np.intp]:
        """Return the rows of all integer ids from `first` to `last`."""

        def number(row: np.int32) -> int:
            return int(self.ids[row])

        # Not np.searchsorted: it copies the order of all rows, and the writer's lock is held here.
        start = bisect_left(self.by_id, first, key=number)
        stop = bisect_right(self.by_id, last, start, key=number)
        return self.by_id[start:stop].astype(np.intp)

    def find_strings(self, strings: list[str]) -> NDArray[np.intp]:
        """Return the row of every string id, -1 if there is none."""
        if self.names is None:
            return np.full(len(strings), -1, np.intp)
        places = self.names.places(strings)
        return np.where(places >= 0, self.by_id[places], -1)

    def rows_with(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Return (n,) whether each row has one of these ids."""
        if self.names is None:
            refuse_string_filter(ids)
            return np.isin(self.checked_ids, ids)
        found = self.find_strings(as_string_ids(ids) if ids.size else [])
        chosen = np.zeros(len(self), bool)
        chosen[found[found >= 0]] = True
        return chosen

    def places(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the places of rows by ascending integer id, the order of string ids and attributes."""
        return np.searchsorted(self.ids, self.ids[rows], sorter=self.by_id)

    def strings(self, rows: NDArray[np.intp]) -> list[str]:
        """Return the string ids of rows."""
        if self.names is None:
            raise AssertionError("the ids are integers")
        return [self.names[place] for place in self.places(rows)]

    @property
    def checked_ids(self) -> Ids:
        """The (n,) integer ids, verified if they were read from a file."""
        if self.guard is not None:
            self.guard.ids()
        return self.ids

    @lazy
    def by_id(self) -> NDArray[np.int32]:
        """The (n,) rows in ascending order of integer ids."""
        return np.argsort(self.checked_ids).astype(np.int32)

    @lazy
    def searcher(self) -> _core.Searcher:
        """The native searcher over lists, codes and kept vectors."""
        trained = self.trained
        layout = trained.codebooks.model.layout
        if self.packed.scales is not None and trained.codebooks.model.vector_levels is not None:
            self.verify()  # the scales are read below
        codes = _core.Codes(
            **trained.codebooks.arguments(self.packed, self.lists),
            reach=self.spread.reach,
            bias_low=trained.bias_low,
            bias_step=trained.bias_step,
            bias_by_length=not trained.euclidean,
        )
        kept = _core.Kept(
            keep="none" if self.kept.shape[1] == 0 else self.kept.dtype.name,
            rows=np.ascontiguousarray(self.kept).view(np.uint8),
            units=self.units,
            euclidean=trained.euclidean,
            gains=None if self.gains is None else self.gains.view(np.uint16),
            biases=self.biases,
            ids=self.ids,
        )
        rotation = _core.Rotation(
            matrix=trained.matrix,
            columns=None if layout.padded == layout.dimensions else layout.columns.astype(np.int64),
        )
        return _core.Searcher(
            lists=self._native_lists(),
            codes=codes,
            kept=kept,
            projection=_core.Projection(matrix=trained.projection, mean=trained.mean),
            rotation=rotation,
            second=None if self.second is None else self.second.native(),
            row_unit=trained.unit,
            query_unit=trained.query_unit,
            unit_length=trained.metric == "cosine",
            guard=None if self.guard is None else self.guard.native,
        )

    def _native_lists(self) -> _core.Lists:
        coarse, partition = self.trained.coarse, self.trained.partition
        shapes = self.spread.shapes(self.list_sizes, self.trained.code_dimensions)
        return _core.Lists(
            **coarse.arguments(exact=self.kept.shape[1] == 0 or coarse.is_rough(shapes[0])),
            spreads=partition.spreads,
            offsets=partition.offsets,
            # Bases by rounded centroids may be larger than by the centroids themselves.
            largest_base=2.0 * coarse.longest,
            largest_offset=float(np.abs(partition.offsets).max()),
            shapes=shapes,
            rows=self.blocks.rows,
            places=self.blocks.places,
        )

    def search(
        self,
        queries: Float32Array,
        *,
        k: int,
        probing: Probing,
        rerank: int,
        allowed: Allowed,
        threads: int | None,
        out_counts: Ids | None = None,
        out_seconds: NDArray[np.float64] | None = None,
    ) -> tuple[Scores, Ids]:
        """Return (n, k) scores, larger is better, and integer ids.

        `out_counts` (n, 3) is set to lists probed, rows scanned and candidates reranked; the time of each stage
        is added to `out_seconds` (4,). Both require a search on one thread.
        """
        n = len(queries)
        scores, ids = np.empty((n, k), np.float64), np.empty((n, k), np.int64)
        native = self.searcher.search
        lists = probing.native()
        if n == 1 or out_counts is not None:
            native(
                queries=queries,
                **lists,
                rerank=rerank,
                out_ids=ids,
                out_scores=scores,
                allowed=allowed.mask,
                second_allowed=allowed.second,
                share=allowed.share,
                out_counts=out_counts,
                out_seconds=out_seconds,
            )
            return scores, ids

        def search_some(part: slice) -> None:
            native(
                queries=queries[part],
                **lists,
                rerank=rerank,
                out_ids=ids[part],
                out_scores=scores[part],
                allowed=allowed.mask,
                second_allowed=allowed.second,
                share=allowed.share,
            )

        map_threads(search_some, self.tasks(n, probing.probes, rerank, threads), threads)
        return scores, ids

    def tasks(self, n_queries: int, probes: int, rerank: int, threads: int | None) -> list[slice]:
        """Return slices of queries to search at once: one unless there is work for several threads."""
        trained = self.trained
        n_lists = len(trained.partition)
        scanned = len(self) * min(1.0, probes / n_lists) * trained.codebooks.model.layout.n_sections
        work = n_queries * ((n_lists + min(rerank, len(self))) * trained.dimensions + scanned)
        count = available_threads(threads)
        if count == 1 or work < LEAST_THREADED:
            parts = max(1, -(-n_queries // QUERIES_PER_CALL))
        else:
            # Two tasks per thread: a thread that gets a processor late leaves one to the others.
            parts = max(-(-n_queries // QUERIES_TOGETHER), min(2 * count, int(work / LEAST_TASK), n_queries))
        return slices(n_queries, max(1, -(-n_queries // parts)))


def refuse_string_filter(ids: NDArray[Any]) -> None:
    """Raise a ValueError for a filter by strings in an index whose ids are integers."""
    if ids.size and ids.dtype.kind not in "iu":
        raise ValueError(f"a filter by {kind_of(ids)} does not suit an index whose ids are int")
