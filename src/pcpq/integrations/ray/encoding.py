"""Some of the vectors as a file of rows, sorted by list: what one task of a build leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.integrations.ray.sources import Source
from pcpq.io.arrays import Ids
from pcpq.segment.encoded_rows import Rows, RowsBuilder
from pcpq.segment.list_statistics import Spread
from pcpq.segment.trained import Trained
from pcpq.store.store import new_name
from pcpq.store.tensors import FileEntry, Tensors, write_tensors
from pcpq.tuning.ground_truth import ExactAnswers, FoundRows, TuningQueries
from pcpq.util.batches import encoding_batches

# Threads for which a build in one process has the largest batches; their size must be the same here, since sums
# of a batch are rounded, and so are products of its rows with all centers.
FEW_THREADS = 1
MORE_THAN_A_BATCH = 1 << 20


def batch_rows(dimensions: int) -> int:
    """Vectors of a batch of a build in one process: of more of them, the first batch."""
    return int(encoding_batches(MORE_THAN_A_BATCH, dimensions, FEW_THREADS)[0].stop)


@dataclass(frozen=True)
class Encoded:
    """A file of rows, and what is known of them."""

    entry: FileEntry
    counts: NDArray[np.uint32]  # (L,) rows of each list
    reach: float
    residuals: tuple[float, ...]  # of each batch: sums are added up in the order of batches
    found: FoundRows | None


def encode_part(
    directory: Path,
    source: Source,
    rows: slice,
    ids: Ids | None,
    trained: Trained,
    asked: TuningQueries | None,
) -> Encoded:
    """Vectors of some numbers, a whole number of batches, encoded; None for ids: they are the numbers."""
    exact = None if asked is None else ExactAnswers(trained, asked)
    builder, sums = RowsBuilder(rows.stop - rows.start), BatchSums()
    for batch in source.batches(rows.start, rows.stop, batch_rows(source.dimensions)):
        first = rows.start + builder.count
        if exact is not None:
            exact.look(batch, first)
        some, spread = trained.rows(batch, first, 1)
        some.ids[:] = np.arange(first, first + len(some))
        sums.add(some.lists, spread)
        builder.append(some, spread)
    if builder.count != rows.stop - rows.start:
        raise ValueError(f"rows {rows.start} to {rows.stop} are {builder.count}; did files change meanwhile?")
    encoded, spread = builder.finish()
    if ids is not None:
        encoded.ids[:] = ids
    encoded.sort_by_list()
    counts = np.bincount(encoded.lists, minlength=len(trained.partition)).astype(np.uint32)
    arrays = encoded.columns() | sums.arrays() | {"counts": counts}
    entry = write_tensors(directory / new_name("segment"), arrays, {})
    return Encoded(entry, counts, spread.reach, tuple(sums.residuals), None if exact is None else exact.found())


class BatchSums:
    """What spreads say of lists, batch by batch, without the lists that a batch has no row of."""

    def __init__(self) -> None:
        self.residuals: list[float] = []
        self._lists: list[NDArray[np.int32]] = []
        self._sums: list[NDArray[np.float64]] = []

    def add(self, lists: NDArray[np.int32], spread: Spread) -> None:
        """A batch."""
        filled = np.unique(lists)
        self._lists.append(filled)
        self._sums.append(spread.sums[:, filled].T)
        self.residuals.append(spread.residuals)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """In the order of lists, and of batches within them."""
        lists = np.concatenate(self._lists)
        order = np.argsort(lists, kind="stable")
        return {"sum_lists": lists[order], "sums": np.concatenate(self._sums)[order]}


class PartFile:
    """What encode_part wrote, read list by list."""

    def __init__(self, directory: Path, entry: FileEntry) -> None:
        self._tensors = Tensors(directory, entry)
        self.counts = self._tensors["counts"].astype(np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self.counts)])

    def rows(self, lists: slice) -> Rows:
        """Of some lists."""
        some = slice(int(self._starts[lists.start]), int(self._starts[lists.stop]))
        names = Rows.__dataclass_fields__
        columns = {name: self._tensors.get(name) for name in names}
        return Rows.of({name: column[some] for name, column in columns.items() if column is not None})

    def add_sums(self, lists: slice, totals: NDArray[np.float64]) -> None:
        """Add those of all batches, one after the other, to (L, 3) totals."""
        owners = self._tensors["sum_lists"]
        low, high = np.searchsorted(owners, [lists.start, lists.stop])
        np.add.at(totals, owners[low:high] - lists.start, self._tensors["sums"][low:high])
