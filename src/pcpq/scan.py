"""What an index is made of while it is searched: arrays that never change, and one native call a batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.arrays import Float32Array, Ids, slices
from pcpq.coarse import Coarse
from pcpq.codebooks import PackedCodes
from pcpq.packing import Blocks
from pcpq.parallel import available_threads, map_threads
from pcpq.quantizers.codes import Codes
from pcpq.rows import Rows, Spread
from pcpq.trained import Trained

# Queries a thread takes at once; the native code shares the reading of codes among them.
QUERIES_TOGETHER = 1024


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Rows in list order, packed; what every search reads and nothing changes."""

    trained: Trained
    blocks: Blocks
    packed: PackedCodes
    spread: Spread
    gains: NDArray[np.float16] | None
    biases: Float32Array | None
    kept: NDArray[np.generic]
    units: Float32Array | None
    ids: Ids

    @classmethod
    def of(cls, trained: Trained, rows: Rows, spread: Spread) -> Snapshot:
        """Sort rows by list, where they lie, and pack their codes."""
        rows.sort_by_list()
        blocks = Blocks.of(np.bincount(rows.lists, minlength=len(trained.partition)).astype(np.int64))
        codes = Codes(rows.centers, rows.scales)
        packed = trained.codebooks.pack(blocks, rows.lists, codes, rows.bias_bytes)
        judged_by = (rows.gains, rows.biases, rows.kept, rows.units, rows.ids)
        return cls(trained, blocks, packed, spread, *judged_by)

    def __len__(self) -> int:
        return len(self.ids)

    def bytes_by_part(self) -> dict[str, int]:
        """What codes, corrections, kept vectors and ids take."""
        parts = {
            "codes": self.packed,
            "corrections": (self.gains, self.biases),
            "kept": (self.kept, self.units),
            "ids": (self.ids,),
        }
        return {name: sum(0 if a is None else a.nbytes for a in arrays) for name, arrays in parts.items()}

    @cached_property
    def plans(self) -> dict[Any, Any]:
        """What searches for one query settled on, by what they were asked."""
        return {}

    @property
    def lists(self) -> NDArray[np.int32]:
        """(n,) the list of every row."""
        counts = np.diff(self.blocks.rows)
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    def rows(self) -> Rows:
        """The rows again, unpacked, in list order."""
        codes, biases = self.trained.codebooks.unpack(self.blocks, self.packed)
        corrections = (self.gains, self.biases, self.kept, self.units, self.ids)
        return Rows(self.lists, codes.centers, codes.scales, biases, *corrections)

    @cached_property
    def searcher(self) -> Any:
        """Lists, codes and kept vectors in native hands."""
        trained, partition = self.trained, self.trained.partition
        keep = "none" if self.kept.shape[1] == 0 else self.kept.dtype.name
        coarse = Coarse.of(partition)
        # Bases by rounded centers may be larger than by the centers themselves.
        largest, largest_offset = 2.0 * coarse.longest, float(np.abs(partition.offsets).max())
        shapes = self.spread.shapes(np.diff(self.blocks.rows), trained.dimensions)
        places = (self.blocks.rows, self.blocks.blocks)
        centers = coarse.arguments(exact=keep == "none" or coarse.is_rough(shapes[0]))
        lists = (centers, partition.spreads, partition.offsets, largest, largest_offset, shapes, *places)

        bias = (trained.bias_low, trained.bias_step, not trained.euclidean)
        codes = trained.codebooks.arguments(self.packed, self.lists, self.spread.reach, bias)

        gains = None if self.gains is None else self.gains.view(np.uint16)
        kept = np.ascontiguousarray(self.kept).view(np.uint8)
        judged_by = (keep, kept, self.units, trained.euclidean, gains, self.biases, self.ids)

        layout = trained.codebooks.model.layout
        columns = None if layout.padded == layout.dimensions else layout.columns.astype(np.int64)
        turn = (trained.matrix, columns)
        asking = (trained.unit, trained.query_unit, trained.metric == "cosine")
        return _core.Searcher(lists, codes, judged_by, turn, trained.dimensions, *asking)

    def search(
        self,
        queries: Float32Array,
        k: int,
        probes: int,
        rerank: int,
        allowed: NDArray[np.uint32] | None,
        threads: int | None,
        counts: Ids | None = None,
        seconds: NDArray[np.float64] | None = None,
    ) -> tuple[Float32Array, Ids]:
        """Scores, larger is better, and ids, a query a row.

        `counts` (n, 3) becomes lists probed, rows scanned and candidates judged; `seconds` (4,) gains the time
        of each stage; with one thread only.
        """
        n = len(queries)
        scores, ids = np.empty((n, k), np.float32), np.empty((n, k), np.int64)
        native = self.searcher.search
        if n == 1 or counts is not None:
            native(queries, probes, rerank, ids, scores, allowed, counts, seconds)
            return scores, ids

        def search_some(part: slice) -> None:
            native(queries[part], probes, rerank, ids[part], scores[part], allowed)

        together = min(QUERIES_TOGETHER, -(-n // available_threads(threads)))
        map_threads(search_some, slices(n, together), threads)
        return scores, ids

    def mask(self, allowed: NDArray[np.bool_]) -> tuple[int, NDArray[np.uint32]]:
        """How many of (n,) rows in list order may be found, and which: a bit a row and a word a block."""
        bits = np.packbits(self.blocks.spread(allowed), axis=1, bitorder="little")
        return int(allowed.sum()), bits.view(np.uint32).reshape(-1)

    def rows_of(self, ids: NDArray[Any]) -> NDArray[np.intp]:
        """The row of every id, or a KeyError that names one that is not there."""
        order = np.argsort(self.ids)
        places = np.searchsorted(self.ids, ids, sorter=order)
        rows: NDArray[np.intp] = order[np.minimum(places, len(order) - 1)]
        missing = self.ids[rows] != ids
        if missing.any():
            raise KeyError(f"id {ids[missing][0]} is not in the index")
        return rows


class Asked(NamedTuple):
    """Queries in working units."""

    rows: Float32Array
    unit: float
