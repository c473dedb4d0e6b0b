"""Packing of codes into blocks of rows, as the scan reads them.

The rows of a list fill blocks of 32 or 64; its last block may hold fewer. If lists have few rows, blocks are
dense: they hold rows of consecutive lists without gaps. Row p of the block is at byte p of each line.

In blocks of 32 rows two sections share a byte, a is the even and b the odd one:

    plain   for every pair of sections   32 bytes  codes     a | b << 4
            (the bias is two more sections, its low and its high digit; zeros fill up to four sections)

    scaled  for every pair of sections   32 bytes  codes     a | b << 4
                                         32 bytes  scales    a | b << 4
            then                         32 bytes  bias      low digit | high digit << 4
                                         64 bytes  128 times the sum of the row's steps, modulo 2^16, rows 0-7,
                                                   16-23, 8-15, 24-31: the order of sums in SIMD registers

In blocks of 64 rows codes have six bits, and four sections a, b, c and d share three bytes:

    wide    for every four sections      64 bytes  a | (d & 3) << 6
                                         64 bytes  b | (d >> 2 & 3) << 6
                                         64 bytes  c | (d >> 4) << 6
            (the bias is two more sections, its lower six bits and its upper two; zeros fill up to four)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Bytes, Float32Array

# Rows per word of a mask.
MASK_ROWS = 32
# With fewer rows per list than this, blocks would be mostly empty, so lists share blocks.
LEAST_ROWS_PER_BLOCK = 8
# Rows that are packed or unpacked at once.
PIECE_ROWS = 1 << 14
LARGEST_STEP = 64
# Largest rounding error in a signed 16-bit sum, and the number of sections that it allows.
ROUNDING_ROOM = 16_000
MOST_SECTIONS = 15_000
SUM_ORDER = np.concatenate([np.arange(0, 8), np.arange(16, 24), np.arange(8, 16), np.arange(24, 32)])
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Blocks:
    """The starts of lists: as rows in list order, and as places in blocks."""

    rows: NDArray[np.int64]  # (L + 1,)  the last is the number of rows
    places: NDArray[np.int64]  # (L + 1,)  the last is the end of the last block
    size: int = 32  # rows per block, a multiple of MASK_ROWS

    @classmethod
    def of(cls, counts: NDArray[np.int64], dense: bool = False, size: int = 32) -> Blocks:
        """Return the blocks for lists of `counts` rows; if `dense`, lists share blocks."""
        rows = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        places = rows.copy() if dense else np.concatenate([[0], np.cumsum(_whole_blocks(counts, size))])
        places[-1] = _whole_blocks(places[-1], size)
        return cls(rows, places.astype(np.int64), size)

    @classmethod
    def fitting(cls, counts: NDArray[np.int64], size: int) -> Blocks:
        """Return the blocks for lists of `counts` rows, which share blocks if they have few."""
        return cls.of(counts, dense=int(counts.sum()) < LEAST_ROWS_PER_BLOCK * len(counts), size=size)

    @property
    def dense(self) -> bool:
        """Whether lists share blocks."""
        return bool(np.array_equal(self.rows[:-1], self.places[:-1]))

    @property
    def count(self) -> int:
        """The number of blocks."""
        return int(self.places[-1]) // self.size

    @property
    def mask_words(self) -> int:
        """The number of words of a mask."""
        return int(self.places[-1]) // MASK_ROWS

    def row_places(self) -> NDArray[np.int64]:
        """Return the (n,) place of every row, rows in list order."""
        counts = np.diff(self.rows)
        return np.arange(self.rows[-1]) + np.repeat(self.places[:-1] - self.rows[:-1], counts)

    def row_lists(self) -> NDArray[np.int32]:
        """Return the (n,) list of every row, rows in list order."""
        counts = np.diff(self.rows)
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    def pieces(self) -> list[Piece]:
        """Return consecutive ranges of lists of about PIECE_ROWS rows; all lists if they share blocks."""
        n_lists, first, found = len(self.rows) - 1, 0, []
        while first < n_lists:
            last = int(np.searchsorted(self.rows, self.rows[first] + PIECE_ROWS, side="right")) - 1
            last = n_lists if self.dense else min(max(last, first + 1), n_lists)
            rows, places = (starts[first : last + 1] for starts in (self.rows, self.places))
            found.append(
                Piece(
                    lists=slice(first, last),
                    rows=slice(int(rows[0]), int(rows[-1])),
                    blocks=slice(int(places[0]) // self.size, int(places[-1]) // self.size),
                    own=Blocks(rows - rows[0], places - places[0], self.size),
                )
            )
            first = last
        return found

    def mask(self, chosen: NDArray[np.bool_], order: NDArray[np.int32] | None = None) -> NDArray[np.uint32]:
        """Return the mask of (n,) booleans: one bit per place of the blocks, 32 bits per word.

        Rows are in list order, or chosen[i] is that of row order[i].
        """
        mask = np.empty(self.mask_words, np.uint32)
        if not _core.mask_rows(
            chosen=np.ascontiguousarray(chosen),
            order=None if order is None else np.ascontiguousarray(order),
            starts=self.rows,
            places=self.places,
            out_mask=mask,
        ):
            raise ValueError(f"{len(chosen)} booleans for {self.rows[-1]} rows")
        return mask

    def bits(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Return the word of every row in a mask, and its bit in that word."""
        lists = np.searchsorted(self.rows, rows, side="right") - 1
        places = rows - self.rows[lists] + self.places[lists]
        return places // MASK_ROWS, np.uint32(1) << (places % MASK_ROWS).astype(np.uint32)

    def chosen_rows(self, mask: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Return the rows of a mask, ascending; fast if they are few."""
        words = np.flatnonzero(mask)
        bits = np.unpackbits(mask[words].view(np.uint8), bitorder="little").reshape(-1, MASK_ROWS)
        word, bit = np.nonzero(bits)
        places = words[word] * MASK_ROWS + bit
        lists = np.searchsorted(self.places, places, side="right") - 1
        rows: NDArray[np.intp] = places - self.places[lists] + self.rows[lists]
        return rows

    def spread(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return (n, ...) values of rows in list order as (n_blocks, size, ...), zero at empty places."""
        out = np.zeros((int(self.places[-1]), *values.shape[1:]), values.dtype)
        out[self.row_places()] = values
        return out.reshape(-1, self.size, *values.shape[1:])


class Piece(NamedTuple):
    """A range of lists with their rows and blocks, which are few enough to be packed or unpacked at once."""

    lists: slice
    rows: slice
    blocks: slice
    own: Blocks  # of these lists alone


def _whole_blocks(places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return -(-places // size) * size


def pair_up(values: Bytes) -> Bytes:
    """Return (n, m) values under 16 as (n, ceil(m / 2)) bytes: the even section plus 16 times the odd one."""
    pairs = np.array(values[:, 0::2], order="C")
    pairs[:, : values.shape[1] // 2] |= values[:, 1::2] << np.uint8(4)
    return pairs


def take_apart(pairs: Bytes, n_sections: int) -> Bytes:
    """Return the (n, m) values of (n, ceil(m / 2)) pairs."""
    values = np.empty((len(pairs), n_sections), np.uint8)
    values[:, 0::2] = pairs & 15
    values[:, 1::2] = pairs[:, : n_sections // 2] >> 4
    return values


def pack_plain(blocks: Blocks, n_sections: int, codes: Bytes, biases: Bytes) -> Bytes:
    """Return (n_blocks, bytes) of (n, ceil(m / 2)) pairs of codes and (n,) bias bytes, rows in list order."""
    columns = np.zeros((len(codes), -(-(n_sections + 2) // 4) * 2), np.uint8)
    columns[:, : codes.shape[1]] = codes
    last = n_sections // 2
    if n_sections % 2:
        columns[:, last] |= biases << np.uint8(4)
        columns[:, last + 1] = biases >> 4
    else:
        columns[:, last] = biases
    return _by_column(blocks, columns).reshape(blocks.count, -1)


def pack_scaled(
    blocks: Blocks, codes: Bytes, scales: Bytes, biases: Bytes, step_sums: NDArray[np.int64]
) -> Bytes:
    """Return (n_blocks, bytes) of pairs of codes, pairs of scales and bias bytes, rows in list order.

    `step_sums` are the (n,) sums of the steps of each row's scales.
    """
    # (n_blocks, pairs, 2, 32)
    pairs = np.stack([_by_column(blocks, part) for part in (codes, scales)], axis=2)
    shifts = step_sums + 4 * (biases.astype(np.int64) % 16 + biases // 16)
    sums = blocks.spread((128 * shifts).astype(np.uint16))[:, SUM_ORDER]
    parts = (
        pairs.reshape(len(pairs), -1),
        blocks.spread(biases),
        np.ascontiguousarray(sums).view(np.uint8),
    )
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def pack_wide(blocks: Blocks, codes: Bytes, biases: Bytes) -> Bytes:
    """Return (n_blocks, bytes) of (n, m) codes under 64 and (n,) bias bytes, rows in list order."""
    n, m = codes.shape
    sections = np.zeros((n, -(-(m + 2) // 4), 4), np.uint8)
    flat = sections.reshape(n, -1)
    flat[:, :m] = codes
    flat[:, m], flat[:, m + 1] = biases & 63, biases >> 6
    fourth = sections[:, :, 3]
    upper: Bytes = np.stack([fourth << 6, fourth >> 2 << 6, fourth >> 4 << 6], axis=2)
    lines = sections[:, :, :3] | upper
    return _by_column(blocks, lines.reshape(n, -1)).reshape(blocks.count, -1)


def unpack_wide(packed: Bytes, size: int, places: NDArray[np.int64], n_sections: int) -> tuple[Bytes, Bytes]:
    """Return (n, m) codes and (n,) bias bytes of the rows at some places of blocks of wide codes."""
    lines = packed.reshape(len(packed), -1, size)[places // size, :, places % size]
    threes = lines.reshape(len(lines), -1, 3)
    upper = threes >> 6
    fourth = upper[:, :, 0] | upper[:, :, 1] << 2 | upper[:, :, 2] << 4
    flat = np.concatenate([threes & 63, fourth[:, :, None]], axis=2).reshape(len(lines), -1)
    biases = flat[:, n_sections] | flat[:, n_sections + 1] << 6
    return np.ascontiguousarray(flat[:, :n_sections]), biases


def _by_column(blocks: Blocks, columns: Bytes) -> Bytes:
    """Return (n, c) bytes of rows as (n_blocks, c, size)."""
    return np.ascontiguousarray(blocks.spread(columns).transpose(0, 2, 1))


def unpack(
    packed: Bytes, size: int, places: NDArray[np.int64], n_sections: int, scaled: bool
) -> tuple[Bytes, Bytes | None, Bytes]:
    """Return pairs of codes, pairs of scales or None, and (n,) bias bytes of rows at some places of blocks."""
    block, lane = places // size, places % size
    n_pairs, last = (n_sections + 1) // 2, n_sections // 2
    if scaled:
        both = packed[:, : n_pairs * 2 * size].reshape(len(packed), n_pairs, 2, size)
        biases = packed[:, n_pairs * 2 * size : (n_pairs * 2 + 1) * size]
        return both[block, :, 0, lane], both[block, :, 1, lane], biases[block, lane]
    columns = packed.reshape(len(packed), -1, size)[block, :, lane]
    codes, bias = np.ascontiguousarray(columns[:, :n_pairs]), columns[:, last].copy()
    if n_sections % 2:
        bias = bias >> 4 | columns[:, last + 1] << np.uint8(4)
        codes[:, last] &= 15
    return codes, None, bias


def scale_steps(scales: Float32Array) -> tuple[NDArray[np.int8], Float32Array, float]:
    """Return (m, s) scales as (m, 16) integer steps of at most 64, their (m,) units, and the largest step.

    With many sections steps are coarser, so that sums still fit into 16 bits.
    """
    m, s = scales.shape
    largest = int(np.clip(2 * ROUNDING_ROOM // (m + 2), 2, LARGEST_STEP))
    reach = np.abs(scales).max(axis=1)
    units = np.where(reach > 0, reach, 1.0) / largest
    steps = np.zeros((m, 16), np.int8)
    steps[:, :s] = np.rint(scales / units[:, None])
    return steps, units.astype(np.float32), float(largest)


def bias_bytes(biases: Float32Array, low: float, step: float) -> Bytes:
    """Return the byte b for every bias such that low + step * b is nearest to it."""
    if not step > 0:
        return np.zeros(len(biases), np.uint8)
    values: Bytes = np.rint(np.clip((biases - low) / step, 0, 255)).astype(np.uint8)
    return values


def bias_range(biases: Float32Array) -> tuple[float, float]:
    """Return low and step of bytes that cover all biases but a thousandth at either end."""
    if len(biases) == 0:
        return 0.0, 0.0
    low, high = (float(end) for end in np.quantile(biases, [0.001, 0.999]))
    return low, (high - low) / 255
