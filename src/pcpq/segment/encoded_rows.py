"""Encoded vectors while an index is built: columns that grow batch by batch and are sorted in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Bytes, Float32Array, Ids, empty_lines
from pcpq.segment.list_statistics import ListStatistics
from pcpq.util.pages import Pages

# From this number of rows on, free memory is returned to the system before packing.
MANY_ROWS = 100_000
# The names of columns of second lists begin with it.
SECOND = "second_"


@dataclass
class EncodedRows:
    """Encoded vectors as columns of one row per vector, in any order or in list order."""

    lists: NDArray[np.int32]  # (n,)
    codes: NDArray[Any]  # (n, m), or (n, ceil(m / 2)) with two sections per byte
    scales: NDArray[Any] | None  # of the same shape, or (n, 1)
    bias_bytes: Bytes  # (n,) bias of the scan, rounded
    gains: NDArray[np.float16] | None  # (n,)
    biases: Float32Array | None  # (n,)
    kept: NDArray[np.generic]  # (n, d) kept vectors
    units: Float32Array | None  # (n,) units of kept integers
    ids: Ids  # (n,)
    # The same in the second list of every row; None if rows are in one list.
    second_lists: NDArray[np.int32] | None = None
    second_codes: NDArray[Any] | None = None
    second_scales: NDArray[Any] | None = None
    second_bias_bytes: Bytes | None = None

    @classmethod
    def of(cls, columns: dict[str, NDArray[Any]]) -> EncodedRows:
        """Return rows of these columns; all others are None."""
        return cls(**(dict.fromkeys(field.name for field in fields(cls)) | columns))  # type: ignore[arg-type]

    @classmethod
    def joined(cls, parts: Sequence[EncodedRows]) -> EncodedRows:
        """Return the rows of some parts, one after the other."""
        return cls.of(
            {name: np.concatenate([getattr(part, name) for part in parts]) for name in parts[0].columns()}
        )

    def __len__(self) -> int:
        return len(self.ids)

    def in_first_lists(self) -> EncodedRows:
        """Return the rows without their codes in second lists."""
        return EncodedRows.of(
            {name: column for name, column in self.columns().items() if name in FIRST_COLUMNS}
        )

    def copies(self) -> EncodedRows | None:
        """Return the codes in second lists as rows of their own, sorted by list; None if there are none.

        Their ids are the numbers of the rows that they are copies of.
        """
        if self.second_lists is None:
            return None
        order = np.argsort(self.second_lists, kind="stable")
        columns = {
            name.removeprefix(SECOND): column[order]
            for name, column in self.columns().items()
            if name in SECOND_COLUMNS
        }
        return EncodedRows.of(columns | {"kept": np.empty((len(order), 0), np.uint8), "ids": order})

    def counts(self, n_lists: int) -> NDArray[np.int64]:
        """Return the (L,) numbers of rows in each list."""
        return np.bincount(self.lists, minlength=n_lists).astype(np.int64)

    def put(self, start: int, rows: EncodedRows) -> None:
        """Write rows into the columns, from row `start` on."""
        for name, column in self.columns().items():
            column[start : start + len(rows)] = getattr(rows, name)

    def taken(self, rows: slice | NDArray[np.intp]) -> EncodedRows:
        """Return some of the rows."""
        return EncodedRows.of({name: column[rows] for name, column in self.columns().items()})

    def sort_by_list(self) -> None:
        """Sort rows by list, in place, since two copies may not fit into memory."""
        order = np.argsort(self.lists, kind="stable")
        for column in self.columns().values():
            if column.size == 0:
                continue
            if not _core.permute_rows(rows=column.reshape(len(column), -1).view(np.uint8), order=order):
                raise AssertionError("the order is not a permutation")

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns that are not None, by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: column for name, column in found.items() if column is not None}


SECOND_COLUMNS = tuple(one.name for one in fields(EncodedRows) if one.name.startswith(SECOND))
FIRST_COLUMNS = tuple(one.name for one in fields(EncodedRows) if one.name not in SECOND_COLUMNS)


class EncodedRowsBuilder:
    """A collection of encoded rows, batch by batch; memory is allocated once if their number is known."""

    def __init__(self, length: int | None) -> None:
        self._length, self.count = length, 0
        self._rows: EncodedRows | None = None
        self._spread: ListStatistics | None = None
        self._pages: dict[str, Pages] = {}  # memory of columns that grow

    def append(self, some: EncodedRows, spread: ListStatistics) -> None:
        """Append a batch of rows and its statistics."""
        self._spread = spread if self._spread is None else spread.joined(self._spread)
        rows = self._with_room(some)
        rows.put(self.count, some)
        self._rows, self.count = rows, self.count + len(some)

    def _with_room(self, some: EncodedRows) -> EncodedRows:
        """Return the rows so far, in columns with room for some more."""
        end, room = self.count + len(some), 0 if self._rows is None else len(self._rows)
        if self._rows is not None and end <= room:
            return self._rows
        if self._length is not None:
            shapes = {name: (self._length, *one.shape[1:]) for name, one in some.columns().items()}
            return EncodedRows.of(
                {name: empty_lines(shapes[name], one.dtype) for name, one in some.columns().items()}
            )
        room = max(end, 2 * room)
        self._pages = {
            name: self._pages[name].moved(self.count, room)
            if name in self._pages
            else Pages((room, *column.shape[1:]), column.dtype)
            for name, column in some.columns().items()
        }
        return EncodedRows.of({name: pages.array for name, pages in self._pages.items()})

    def finish(self) -> tuple[EncodedRows, ListStatistics]:
        """Return all rows, and the statistics of their lists."""
        if self._rows is None or self._spread is None:
            raise ValueError("there are no rows")
        if self.count > MANY_ROWS:  # packing needs as much memory as the batches did
            _core.release_memory()
        return self._rows.taken(slice(0, self.count)), self._spread
