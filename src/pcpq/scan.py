"""What an index is made of while it is searched: arrays that never change, and one native call a batch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.arrays import Float32Array, Ids
from pcpq.packing import MOST_SECTIONS, Blocks, Bytes, pack_plain, pack_scaled, scale_steps, unpack
from pcpq.parallel import available_threads, map_threads
from pcpq.partition import Partition
from pcpq.quantizers.codes import Model

# Queries a thread takes at once; the native code shares the reading of codes among them.
QUERIES_TOGETHER = 1024


@dataclass(frozen=True)
class Rows:
    """Encoded vectors, one a row, in any order or in that of their lists."""

    lists: NDArray[np.int32]  # (n,)
    centers: Bytes  # (n, m)
    scales: Bytes | None  # (n, m)
    bias_bytes: Bytes  # (n,)
    gains: NDArray[np.float16] | None  # (n,)
    biases: Float32Array | None  # (n,)
    kept: NDArray[np.generic]  # (n, d)
    units: Float32Array | None  # (n,)
    ids: Ids  # (n,)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, order: NDArray[np.intp]) -> Rows:
        """Some rows, in some order."""
        parts = [None if part is None else part[order] for part in self._parts()]
        return Rows(*parts)  # type: ignore[arg-type]

    @classmethod
    def joined(cls, rows: list[Rows]) -> Rows:
        """One after the other."""
        columns = zip(*(some._parts() for some in rows), strict=True)
        parts = [None if column[0] is None else np.concatenate(column) for column in columns]
        return cls(*parts)  # type: ignore[arg-type]

    def _parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, part.name) for part in fields(self))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Rows in list order, packed; what every search reads and nothing changes."""

    partition: Partition
    model: Model
    euclidean: bool
    bias_low: float
    bias_step: float
    blocks: Blocks
    packed: Bytes  # (n_blocks, bytes)
    reach: float
    gains: NDArray[np.float16] | None
    biases: Float32Array | None
    kept: NDArray[np.generic]
    units: Float32Array | None
    ids: Ids

    @classmethod
    def of(
        cls,
        partition: Partition,
        model: Model,
        euclidean: bool,
        bias_range: tuple[float, float],
        rows: Rows,
        reach: float,
    ) -> Snapshot:
        """Sort rows by list, and pack their codes."""
        rows = rows.take(np.argsort(rows.lists, kind="stable"))
        blocks = Blocks.of(np.bincount(rows.lists, minlength=len(partition)).astype(np.int64))
        if rows.scales is None or model.scales is None:
            packed = pack_plain(blocks, rows.centers, rows.bias_bytes)
        else:
            steps = scale_steps(model.scales)[0]
            packed = pack_scaled(blocks, rows.centers, rows.scales, rows.bias_bytes, steps)
        low, step = bias_range
        return cls(
            partition,
            model,
            euclidean,
            low,
            step,
            blocks,
            packed,
            reach,
            rows.gains,
            rows.biases,
            rows.kept,
            rows.units,
            rows.ids,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def bytes_by_part(self) -> dict[str, int]:
        """What codes, corrections, kept vectors and ids take."""
        parts = {
            "codes": (self.packed,),
            "corrections": (self.gains, self.biases),
            "kept": (self.kept, self.units),
            "ids": (self.ids,),
        }
        return {name: sum(0 if a is None else a.nbytes for a in arrays) for name, arrays in parts.items()}

    def rows(self) -> Rows:
        """The rows again, unpacked, in list order."""
        counts = np.diff(self.blocks.rows)
        lists = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        codes = unpack(self.blocks, self.packed, self.model.layout.n_sections, self.model.scales is not None)
        return Rows(lists, *codes, self.gains, self.biases, self.kept, self.units, self.ids)

    @cached_property
    def arguments(self) -> tuple[Any, Any, Any]:
        """Lists, codes and kept vectors as the native search wants them."""
        coarse, unit = self.partition.coarse()
        offsets = self.partition.offsets
        largest = float(np.abs(offsets).max())
        lists = (coarse, unit, self.partition.weights, offsets, largest, self.blocks.rows, self.blocks.blocks)

        m, k, size = self.model.readout.shape
        centers = np.zeros((m, size, 16), np.float32)
        centers[:, :, :k] = self.model.readout.transpose(0, 2, 1) * np.float32(self.model.unit)
        scales, steps, step_units, largest_step = None, None, None, 0.0
        if self.model.scales is not None:
            steps, step_units, largest_step = scale_steps(self.model.scales)
            scales = np.zeros((m, 16), np.float32)
            scales[:, : self.model.scales.shape[1]] = self.model.scales
            steps = np.concatenate([steps, np.zeros((m % 2, 16), np.int8)])
        bias = (self.bias_low, self.bias_step, not self.euclidean)
        codes = (self.packed, centers, scales, steps, step_units, largest_step, self.reach, *bias)

        keep = "none" if self.kept.shape[1] == 0 else self.kept.dtype.name
        gains = None if self.gains is None else self.gains.view(np.uint16)
        kept = np.ascontiguousarray(self.kept).view(np.uint8)
        return lists, codes, (keep, kept, self.units, self.euclidean, gains, self.biases, self.ids)

    def search(
        self,
        queries: Float32Array,
        turned: Float32Array,
        k: int,
        probes: int,
        rerank: int,
        allowed: NDArray[np.uint32] | None,
        threads: int | None,
        seconds: NDArray[np.float64] | None = None,
    ) -> tuple[Float32Array, Ids, Ids]:
        """Scores, larger is better; ids; and lists probed, rows scanned, candidates judged: a query a row.

        `seconds` (4,) gains the time of each stage; with one thread only.
        """
        n = len(queries)
        scores, ids = np.empty((n, k), np.float32), np.empty((n, k), np.int64)
        counts = np.empty((n, 3), np.int64)
        arguments = self.arguments

        def search_some(part: slice) -> None:
            _core.search(
                *arguments,
                allowed,
                queries[part],
                turned[part],
                probes,
                rerank,
                ids[part],
                scores[part],
                counts[part],
                seconds,
            )

        together = 1 if n == 1 else min(QUERIES_TOGETHER, -(-n // available_threads(threads)))
        if n <= together:
            search_some(slice(0, n))
        else:
            map_threads(search_some, [slice(i, i + together) for i in range(0, n, together)], threads)
        return scores, ids, counts

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


def fits(model: Model) -> bool:
    """Can the scan read these codes: at most 16 centers, and scales, a section, and not too many sections?"""
    few = model.readout.shape[1] <= 16 and model.vector_levels is None
    few = few and model.layout.n_sections <= MOST_SECTIONS
    return few and (model.scales is None or model.scales.shape[1] <= 16)


class Asked(NamedTuple):
    """Queries in working units, as they are and as the tables want them."""

    rows: Float32Array
    turned: Float32Array
    unit: float
