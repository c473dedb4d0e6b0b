"""Codes of vectors in a second list: what a query misses in one list of a vector, it may find in the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.errors import FormatError
from pcpq.io.arrays import Bytes
from pcpq.quantizers.codes import Codes
from pcpq.segment.codebooks import Codebooks, PackedCodes
from pcpq.segment.encoded_rows import EncodedRows
from pcpq.segment.guard import SecondGuard
from pcpq.segment.packing import Blocks
from pcpq.util.lazy import lazy


@dataclass(frozen=True, eq=False)
class SecondCodes:
    """The codes of all rows of a segment once more, packed by their second lists."""

    first: Blocks  # those of the segment
    blocks: Blocks
    packed: PackedCodes
    rows: NDArray[np.int32]  # (n,) the row of the segment that each is a copy of
    guard: SecondGuard | None = None  # None: the arrays were not read from a file

    @classmethod
    def of(cls, codebooks: Codebooks, first: Blocks, blocks: Blocks, copies: EncodedRows) -> SecondCodes:
        """Pack copies, as EncodedRows.copies returns them, into blocks."""
        packed = codebooks.pack(blocks, copies)
        return cls(first, blocks, packed, copies.ids.astype(np.int32))

    @property
    def counts(self) -> NDArray[np.int64]:
        """The (L,) numbers of copies in each list."""
        return np.diff(self.blocks.rows)

    def verify(self) -> None:
        """Verify arrays that were read from a file."""
        if self.guard is not None:
            self.guard.everything()

    def of_rows(self, codebooks: Codebooks, first: Blocks, rows: slice) -> SecondCodes:
        """Return the codes of a range of rows, whose blocks are `first`, in blocks of their own.

        They are in any lists, so all lists are read and verified.
        """
        if self.guard is not None:
            self.guard.lists()
        found = []
        for piece in self.blocks.pieces():
            numbers = self.rows[piece.rows]
            chosen = np.flatnonzero((rows.start <= numbers) & (numbers < rows.stop))
            codes, biases = codebooks.unpack_at(
                self.packed.blocks[piece.blocks], piece.own.row_places()[chosen]
            )
            columns = {
                "lists": piece.own.row_lists()[chosen] + np.int32(piece.lists.start),
                "codes": codes.codes,
                "bias_bytes": biases,
                "kept": np.empty((len(chosen), 0), np.uint8),
                "ids": numbers[chosen] - np.int32(rows.start),
            }
            found.append(
                EncodedRows.of(columns if codes.scales is None else columns | {"scales": codes.scales})
            )
        copies = EncodedRows.joined(found)
        if self.guard is not None:
            check_copies(copies.ids, rows.stop - rows.start, self.guard.path)
        blocks = Blocks.fitting(copies.counts(len(self.counts)), first.size)
        return SecondCodes.of(codebooks, first, blocks, copies)

    def native(self) -> _core.SecondCodes:
        """Return the arrays for native searches."""
        return _core.SecondCodes(
            blocks=self.packed.blocks,
            starts=self.blocks.rows,
            places=self.blocks.places,
            rows=self.rows,
            guard=None if self.guard is None else self.guard.native,
        )

    def unpacked(self, codebooks: Codebooks) -> tuple[Codes, Bytes]:
        """Return codes and bias bytes, in the order of the segment's rows."""
        self.verify()
        codes, biases = codebooks.unpack(self.blocks, self.packed)
        back = np.argsort(self.rows)
        return codes[back], biases[back]

    def lists_of_rows(self) -> NDArray[np.int32]:
        """Return the (n,) second list of every row of the segment."""
        self.verify()
        lists = np.empty(len(self.rows), np.int32)
        lists[self.rows] = self.blocks.row_lists()
        return lists

    @lazy
    def first_places(self) -> NDArray[np.int32]:
        """The (n,) place in the segment's blocks of the row that each is a copy of."""
        self.verify()
        return self.first.row_places().astype(np.int32)[self.rows]

    def mask(self, mask: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the mask of the copies of the rows of a mask."""
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
        return self.blocks.mask(bits[self.first_places].view(np.bool_))


def check_copies(rows: NDArray[np.integer[Any]], n: int, path: Path) -> None:
    """Raise a FormatError that names the file unless copies are of n rows, of each once."""
    if len(rows) != n or rows.min() < 0 or rows.max() >= n or np.bincount(rows, minlength=n).max() > 1:
        raise FormatError(f"{path}: second lists do not hold each of {n} rows once")
