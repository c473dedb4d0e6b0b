"""Codes to blocks of 32 rows, as the scan reads them.

A list's rows fill blocks of 32; its last block may hold fewer. Where lists have few rows, blocks are dense:
they hold rows of several lists, one after the other. Two sections share a byte, a the even one, b the odd one,
row p of the block at byte p:

    plain   for every pair of sections   32 bytes  centers   a | b << 4
            (the bias is two more sections, its low and its high digit; zeros fill up to four sections)

    scaled  for every pair of sections   32 bytes  centers   a | b << 4
                                         32 bytes  scales    a | b << 4
            then                         32 bytes  bias      low digit | high digit << 4
                                         64 bytes  128 times the sum of the row's steps, modulo 2^16, rows 0-7,
                                                   16-23, 8-15, 24-31: the order in which SIMD leaves its sums
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Bytes, Float32Array

BLOCK = 32
LARGEST_STEP = 64
# What rounding may take of the 16 bits of a signed sum, and the sections that leaves room for.
ROUNDING_ROOM = 16_000
MOST_SECTIONS = 15_000
SUM_ORDER = np.concatenate([np.arange(0, 8), np.arange(16, 24), np.arange(8, 16), np.arange(24, 32)])
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Blocks:
    """Where lists begin among rows, and among the places of blocks, 32 each."""

    rows: NDArray[np.int64]  # (L + 1,)
    places: NDArray[np.int64]  # (L + 1,)  the last is the end of the last block

    @classmethod
    def of(cls, counts: NDArray[np.int64], dense: bool = False) -> Blocks:
        """For lists of so many rows; where `dense`, a list may begin in the block in which another ends."""
        rows = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        places = rows.copy() if dense else np.concatenate([[0], np.cumsum(_whole_blocks(counts))])
        places[-1] = _whole_blocks(places[-1])
        return cls(rows, places.astype(np.int64))

    @property
    def dense(self) -> bool:
        """Whether lists share blocks."""
        return bool(np.array_equal(self.rows[:-1], self.places[:-1]))

    @property
    def count(self) -> int:
        """How many blocks."""
        return int(self.places[-1]) // BLOCK

    def row_places(self) -> NDArray[np.int64]:
        """(n,) the place of every row in list order."""
        counts = np.diff(self.rows)
        return np.arange(self.rows[-1]) + np.repeat(self.places[:-1] - self.rows[:-1], counts)

    def mask(self, chosen: NDArray[np.bool_]) -> NDArray[np.uint32]:
        """(n_blocks,) of (n,) rows in list order: a bit a row, a word a block."""
        bits = np.packbits(self.spread(chosen), axis=1, bitorder="little")
        words: NDArray[np.uint32] = bits.view(np.uint32).reshape(-1)
        return words

    def bits(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Word and bit of rows in such a mask."""
        lists = np.searchsorted(self.rows, rows, side="right") - 1
        places = rows - self.rows[lists] + self.places[lists]
        return places // BLOCK, np.uint32(1) << (places % BLOCK).astype(np.uint32)

    def chosen_rows(self, mask: NDArray[np.uint32]) -> NDArray[np.intp]:
        """The rows of such a mask, ascending; quick if they are few."""
        words = np.flatnonzero(mask)
        bits = np.unpackbits(mask[words].view(np.uint8), bitorder="little").reshape(-1, BLOCK)
        word, bit = np.nonzero(bits)
        places = words[word] * BLOCK + bit
        lists = np.searchsorted(self.places, places, side="right") - 1
        rows: NDArray[np.intp] = places - self.places[lists] + self.rows[lists]
        return rows

    def spread(self, values: NDArray[Number]) -> NDArray[Number]:
        """(n, ...) rows in list order to (n_blocks, 32, ...), zeros where no row is."""
        out = np.zeros((int(self.places[-1]), *values.shape[1:]), values.dtype)
        out[self.row_places()] = values
        return out.reshape(-1, BLOCK, *values.shape[1:])


def _whole_blocks(places: NDArray[np.int64]) -> NDArray[np.int64]:
    return -(-places // BLOCK) * BLOCK


def pair_up(values: Bytes) -> Bytes:
    """(n, m) values under 16 to (n, ceil(m / 2)) bytes: the even section, then the odd one times 16."""
    pairs = np.array(values[:, 0::2], order="C")
    pairs[:, : values.shape[1] // 2] |= values[:, 1::2] << np.uint8(4)
    return pairs


def take_apart(pairs: Bytes, n_sections: int) -> Bytes:
    """(n, m) values of pairs."""
    values = np.empty((len(pairs), n_sections), np.uint8)
    values[:, 0::2] = pairs & 15
    values[:, 1::2] = pairs[:, : n_sections // 2] >> 4
    return values


def pack_plain(blocks: Blocks, n_sections: int, centers: Bytes, biases: Bytes) -> Bytes:
    """(n_blocks, bytes) of (n, ceil(m / 2)) pairs of centers and (n,) bias bytes, rows in list order."""
    columns = np.zeros((len(centers), -(-(n_sections + 2) // 4) * 2), np.uint8)
    columns[:, : centers.shape[1]] = centers
    last = n_sections // 2
    if n_sections % 2:
        columns[:, last] |= biases << np.uint8(4)
        columns[:, last + 1] = biases >> 4
    else:
        columns[:, last] = biases
    return _by_column(blocks, columns).reshape(blocks.count, -1)


def pack_scaled(
    blocks: Blocks, centers: Bytes, scales: Bytes, biases: Bytes, step_sums: NDArray[np.int64]
) -> Bytes:
    """The same with pairs of scales, and the (n,) sums of the steps that they stand for."""
    # (n_blocks, pairs, 2, 32)
    pairs = np.stack([_by_column(blocks, part) for part in (centers, scales)], axis=2)
    shifts = step_sums + 4 * (biases.astype(np.int64) % 16 + biases // 16)
    words = blocks.spread((128 * shifts).astype(np.uint16))[:, SUM_ORDER]
    parts = (
        pairs.reshape(len(pairs), -1),
        blocks.spread(biases),
        np.ascontiguousarray(words).view(np.uint8),
    )
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def _by_column(blocks: Blocks, columns: Bytes) -> Bytes:
    """(n, c) bytes of rows to (n_blocks, c, 32)."""
    return np.ascontiguousarray(blocks.spread(columns).transpose(0, 2, 1))


def unpack(blocks: Blocks, packed: Bytes, n_sections: int, scaled: bool) -> tuple[Bytes, Bytes | None, Bytes]:
    """Pairs of centers, pairs of scales or None, and (n,) bias bytes, rows in list order."""
    places = blocks.row_places()
    block, lane = places // BLOCK, places % BLOCK
    n_pairs, last = (n_sections + 1) // 2, n_sections // 2
    if scaled:
        both = packed[:, : n_pairs * 2 * BLOCK].reshape(len(packed), n_pairs, 2, BLOCK)
        biases = packed[:, n_pairs * 2 * BLOCK : (n_pairs * 2 + 1) * BLOCK]
        return both[block, :, 0, lane], both[block, :, 1, lane], biases[block, lane]
    columns = packed.reshape(len(packed), -1, BLOCK)[block, :, lane]
    centers, bias = np.ascontiguousarray(columns[:, :n_pairs]), columns[:, last].copy()
    if n_sections % 2:
        bias = bias >> 4 | columns[:, last + 1] << np.uint8(4)
        centers[:, last] &= 15
    return centers, None, bias


def scale_steps(scales: Float32Array) -> tuple[NDArray[np.int8], Float32Array, float]:
    """(m, s) scales as (m, 16) whole numbers of at most 64, their (m,) units, and the largest number.

    Many sections leave less room for rounding, so their steps are coarser.
    """
    m, s = scales.shape
    largest = int(np.clip(2 * ROUNDING_ROOM // (m + 2), 2, LARGEST_STEP))
    reach = np.abs(scales).max(axis=1)
    units = np.where(reach > 0, reach, 1.0) / largest
    steps = np.zeros((m, 16), np.int8)
    steps[:, :s] = np.rint(scales / units[:, None])
    return steps, units.astype(np.float32), float(largest)


def bias_bytes(biases: Float32Array, low: float, step: float) -> Bytes:
    """Bytes b such that low + step * b is nearest."""
    if not step > 0:
        return np.zeros(len(biases), np.uint8)
    values: Bytes = np.rint(np.clip((biases - low) / step, 0, 255)).astype(np.uint8)
    return values


def bias_range(biases: Float32Array) -> tuple[float, float]:
    """Least value and step of bytes that cover all but the thousandth at either end."""
    if len(biases) == 0:
        return 0.0, 0.0
    low, high = (float(end) for end in np.quantile(biases, [0.001, 0.999]))
    return low, (high - low) / 255
