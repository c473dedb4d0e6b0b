"""A range of vectors as a file of encoded rows, sorted by list: the result of one task of a build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.integrations.ray.sources import Source
from pcpq.io.arrays import Ids
from pcpq.segment.encoded_rows import FIRST_COLUMNS, SECOND, EncodedRows, EncodedRowsBuilder
from pcpq.segment.list_statistics import ListStatistics
from pcpq.segment.trained import Trained
from pcpq.store.store import new_name
from pcpq.store.tensors import FileEntry, Tensors, write_tensors
from pcpq.tuning.ground_truth import ExactAnswers, FoundRows, TuningQueries
from pcpq.util.batches import encoding_batches

# Number of threads for which a build in one process has the largest batches. Batches must have the same size
# here, because the sums of a batch and the products of its rows with the centroids are rounded.
FEW_THREADS = 1
MORE_THAN_A_BATCH = 1 << 20


def batch_rows(dimensions: int) -> int:
    """Return the number of vectors per batch of a build in one process, the size of its first batch."""
    return int(encoding_batches(MORE_THAN_A_BATCH, dimensions, FEW_THREADS)[0].stop)


@dataclass(frozen=True)
class Encoded:
    """A file of encoded rows, with their statistics."""

    entry: FileEntry
    counts: NDArray[np.uint32]  # (L,) rows per list
    second_counts: NDArray[np.uint32] | None  # (L,) copies per second list; None: rows are in one list
    reach: float
    residuals: tuple[float, ...]  # of each batch, because they are summed in the order of batches
    found: FoundRows | None


def encode_part(
    directory: Path,
    source: Source,
    rows: slice,
    ids: Ids | None,
    trained: Trained,
    asked: TuningQueries | None,
) -> Encoded:
    """Encode a range of rows, a whole number of batches, and write it to a file; ids None: the row numbers."""
    exact = None if asked is None else ExactAnswers(trained, asked)
    builder, sums = EncodedRowsBuilder(rows.stop - rows.start), BatchSums()
    for batch in source.batches(rows.start, rows.stop, batch_rows(source.dimensions)):
        first = rows.start + builder.count
        if exact is not None:
            exact.observe(batch, first)
        some, spread = trained.rows(batch, first, 1)
        some.ids[:] = np.arange(first, first + len(some))
        sums.add(some, spread)
        builder.append(some, spread)
    if builder.count != rows.stop - rows.start:
        raise ValueError(f"rows {rows.start} to {rows.stop} are {builder.count}; did files change meanwhile?")
    encoded, spread = builder.finish()
    if ids is not None:
        encoded.ids[:] = ids
    encoded.sort_by_list()
    arrays, counts = sums.arrays(), {}
    for prefix, some_rows in (("", encoded.in_first_lists()), (SECOND, encoded.copies())):
        if some_rows is not None:
            arrays |= {prefix + name: column for name, column in some_rows.columns().items()}
            counts[prefix + "counts"] = some_rows.counts(len(trained.partition)).astype(np.uint32)
    return Encoded(
        entry=write_tensors(directory / new_name("segment"), arrays | counts, {}),
        counts=counts["counts"],
        second_counts=counts.get(SECOND + "counts"),
        reach=spread.reach,
        residuals=tuple(sums.residuals),
        found=None if exact is None else exact.found(),
    )


class BatchSums:
    """Statistics of lists by batch, without the lists that have no row in a batch."""

    def __init__(self) -> None:
        self.residuals: list[float] = []
        self._lists: list[NDArray[np.int32]] = []
        self._sums: list[NDArray[np.float64]] = []

    def add(self, rows: EncodedRows, spread: ListStatistics) -> None:
        """Add the statistics of a batch."""
        lists = [some for some in (rows.lists, rows.second_lists) if some is not None]
        filled = np.unique(np.concatenate(lists))
        self._lists.append(filled)
        self._sums.append(spread.sums[:, filled].T)
        self.residuals.append(spread.residuals)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the sums sorted by list, and by batch within a list."""
        lists = np.concatenate(self._lists)
        order = np.argsort(lists, kind="stable")
        return {"sum_lists": lists[order], "sums": np.concatenate(self._sums)[order]}


class PartFile:
    """Reader of a file of `encode_part`, by ranges of lists."""

    def __init__(self, directory: Path, entry: FileEntry) -> None:
        self._tensors = Tensors(directory, entry)
        self.counts = self._tensors["counts"].astype(np.int64)
        self.starts = starts_of(self.counts)

    def rows(self, lists: slice) -> EncodedRows:
        """Return the encoded rows of a range of lists, without their second codes."""
        return self._rows(lists, self.starts, "")

    def copies(self, lists: slice) -> EncodedRows | None:
        """Return the codes in a range of second lists, as EncodedRows.copies does, of the rows of this file."""
        counts = self._tensors.get(SECOND + "counts")
        return None if counts is None else self._rows(lists, starts_of(counts.astype(np.int64)), SECOND)

    def _rows(self, lists: slice, starts: NDArray[np.int64], prefix: str) -> EncodedRows:
        some = slice(int(starts[lists.start]), int(starts[lists.stop]))
        columns = {name: self._tensors.get(prefix + name) for name in FIRST_COLUMNS}
        return EncodedRows.of({name: column[some] for name, column in columns.items() if column is not None})

    def add_sums(self, lists: slice, totals: NDArray[np.float64]) -> None:
        """Add the sums of a range of lists to (L, 3) totals, batch by batch in order."""
        sum_lists = self._tensors["sum_lists"]
        low, high = np.searchsorted(sum_lists, [lists.start, lists.stop])
        np.add.at(totals, sum_lists[low:high] - lists.start, self._tensors["sums"][low:high])


def starts_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the (L + 1,) starts of lists of `counts` rows, one after the other."""
    return np.concatenate([[0], np.cumsum(counts)])
