"""Encoded vectors while an index is built: columns that grow batch by batch and are sorted where they lie."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.arrays import Float32Array, Ids, empty_lines
from pcpq.packing import Bytes


@dataclass
class Rows:
    """Encoded vectors, one a row, in any order or in that of their lists."""

    lists: NDArray[np.int32]  # (n,)
    centers: NDArray[Any]  # (n, m), or two sections to a byte
    scales: NDArray[Any] | None  # the same, or (n, 1)
    bias_bytes: Bytes  # (n,)
    gains: NDArray[np.float16] | None  # (n,)
    biases: Float32Array | None  # (n,)
    kept: NDArray[np.generic]  # (n, d)
    units: Float32Array | None  # (n,)
    ids: Ids  # (n,)

    def __len__(self) -> int:
        return len(self.ids)

    def with_room(self, length: int, grows: bool) -> Rows:
        """The same rows at the start of longer columns, which begin at a cache line unless they grow."""
        columns, empty = self._columns(), np.empty if grows else empty_lines
        roomy = {name: empty((length, *column.shape[1:]), column.dtype) for name, column in columns.items()}
        for name, column in columns.items():
            roomy[name][: len(column)] = column
        return Rows(**(dict.fromkeys(field.name for field in fields(Rows)) | roomy))  # type: ignore[arg-type]

    def put(self, start: int, rows: Rows) -> None:
        """Write rows from `start` on; where there is no room, columns grow, mostly without being copied."""
        end = start + len(rows)
        for name, column in self._columns().items():
            if len(column) < end:
                column.resize((end, *column.shape[1:]), refcheck=False)
            column[start:end] = getattr(rows, name)

    def taken(self, rows: NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        some = {name: column[rows] for name, column in self._columns().items()}
        return Rows(**(dict.fromkeys(field.name for field in fields(Rows)) | some))  # type: ignore[arg-type]

    def sort_by_list(self) -> None:
        """Bring rows into the order of their lists, where they lie: twice the rows may not fit memory."""
        order = np.argsort(self.lists, kind="stable")
        for column in self._columns().values():
            if column.size and not _core.permute_rows(column.reshape(len(column), -1).view(np.uint8), order):
                raise AssertionError("an order that is none")

    def _columns(self) -> dict[str, NDArray[Any]]:
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: column for name, column in found.items() if column is not None}


class Spread(NamedTuple):
    """How rows spread around the base of their list, so that a scan can guess what is worth a look."""

    reach: float  # no decoded row is longer
    sums: NDArray[np.float64]  # (3, L) of decoded rows' squared lengths, of biases, and of their squares
    residuals: float  # the sum of rows' squared distances from their centers

    @classmethod
    def of(
        cls,
        n_lists: int,
        lists: NDArray[np.int32],
        residuals: Float32Array,
        decoded: Float32Array,
        bias: Float32Array | None,
    ) -> Spread:
        """Of rows of some lists."""
        squares = np.einsum("ij,ij->i", decoded, decoded)
        columns = [squares] if bias is None else [squares, bias, bias * bias]
        sums = np.zeros((3, n_lists))
        for total, column in zip(sums, columns, strict=False):
            total += np.bincount(lists, weights=column, minlength=n_lists)
        apart = float(np.einsum("ij,ij->", residuals, residuals, dtype=np.float64))
        return cls(float(np.sqrt(squares.max())) * 1.001, sums, apart)

    def joined(self, other: Spread) -> Spread:
        """Of the rows of both."""
        return Spread(max(self.reach, other.reach), self.sums + other.sums, self.residuals + other.residuals)

    def scaled(self, shares: NDArray[np.float64], share: float) -> Spread:
        """About that of (L,) shares of every list's rows, and a share of all."""
        return Spread(self.reach, self.sums * shares, self.residuals * share)

    def shapes(self, counts: NDArray[np.int64], dimensions: int) -> Float32Array:
        """(3, L) variance of scores by codes, for a query of length 1; mean and variance of biases."""
        squares, biases, bias_squares = self.sums / np.maximum(counts, 1)
        variances = np.maximum(bias_squares - biases**2, 0.0)
        return np.stack([squares / dimensions, biases, variances]).astype(np.float32)


class RowsBuilder:
    """Rows that come batch by batch; if it is known how many, room for them is taken at once."""

    def __init__(self, length: int | None) -> None:
        self._length, self.count = length, 0
        self._all: tuple[Rows, Spread] | None = None

    def append(self, some: Rows, spread: Spread) -> None:
        """A batch."""
        if self._all is None:
            rows = some.with_room(max(self._length or 0, len(some)), grows=self._length is None)
        else:
            rows, spread = self._all[0], spread.joined(self._all[1])
            rows.put(self.count, some)
        self._all, self.count = (rows, spread), self.count + len(some)

    def finish(self) -> tuple[Rows, Spread]:
        """All rows, and how they spread."""
        if self._all is None:
            raise ValueError("there are no rows")
        return self._all
