"""Files of encoded rows, each sorted by list, merged into one segment, a range of lists per task.

The segment file is identical to that of a build in one process. Its header, except for three checksums, is
computed before the rows are merged, and so is its length in nearly all cases. Tasks write their lists to their
final offsets, and the header is written last. If its length is not the expected one, the arrays are moved.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.integrations.ray.encoding import Encoded, PartFile
from pcpq.segment.encoded_rows import SECOND, SECOND_COLUMNS, EncodedRows, EncodedRowsBuilder
from pcpq.segment.ids import StringIds
from pcpq.segment.list_statistics import ListStatistics
from pcpq.segment.packing import Blocks
from pcpq.segment.second_codes import SecondCodes
from pcpq.segment.segment import Segment
from pcpq.segment.trained import Trained
from pcpq.store.serialization import (
    LATER,
    Arrays,
    guard_of,
    large_arrays,
    page_rows,
    second_arrays,
    second_checks,
    segment_metadata,
    small_arrays,
)
from pcpq.store.tensors import FileEntry, Shape, as_bytes, checksum, header_for

# A checksum with the most frequent number of digits, to estimate the length of the header.
USUAL_CHECK = (1 << 32) - 1
COPIED_AT_ONCE = 1 << 24
# Arrays of string ids, which are written by `finish`, not by a task.
STRING_ID_ARRAYS = ("text", "text_ends", "text_hashes")
SMALL = ("counts", "sums", "list_checks", "page_checks", "second_counts", "second_checks")


@dataclass(frozen=True)
class Frame:
    """Layout of the merged segment: rows per list, and shapes and offsets of the arrays in the file."""

    directory: Path
    name: str
    counts: NDArray[np.int64]  # (L,)
    second_counts: NDArray[np.int64] | None  # (L,) of copies; None: rows are in one list
    shapes: dict[str, Shape]  # of every array
    places: dict[str, int]  # offset of each array, for a header of the expected length
    rows_per_page: int
    unpacked: bool
    block_rows: int

    @property
    def path(self) -> Path:
        """Path of the segment file."""
        return self.directory / f"segment-{self.name}.safetensors"

    @property
    def blocks(self) -> Blocks:
        """First rows and blocks of the lists."""
        return Blocks.fitting(self.counts, self.block_rows)

    @property
    def second_blocks(self) -> Blocks | None:
        """First copies and blocks of the second lists; None: rows are in one list."""
        return (
            None if self.second_counts is None else Blocks.of(self.second_counts, self.dense, self.block_rows)
        )

    @property
    def dense(self) -> bool:
        """Whether lists share blocks."""
        return self.blocks.dense

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        ends = [place + size_of(self.shapes[name]) for name, place in self.places.items()]
        return max(ends)


class Written(NamedTuple):
    """Checksums and statistics of lists that are written."""

    lists: slice
    list_checks: NDArray[np.uint32]
    sums: NDArray[np.float64]  # (3, lists)
    first_page: int
    page_checks: NDArray[np.uint32]  # of pages that lie completely within these lists
    second_checks: NDArray[np.uint32] | None


def size_of(shape: Shape) -> int:
    """Return the size of an array in bytes."""
    return int(np.prod(shape[1], dtype=np.int64)) * shape[0].itemsize


def frame_of(
    directory: Path, name: str, trained: Trained, parts: Sequence[Encoded], names: StringIds | None
) -> Frame:
    """Return the layout of the merged segment without offsets; one row of a part shows the types of arrays."""
    counts: NDArray[np.int64] = np.stack([part.counts for part in parts]).sum(axis=0, dtype=np.int64)
    of_copies = [part.second_counts for part in parts if part.second_counts is not None]
    one = one_row(PartFile(directory, parts[0].entry))
    example = Segment.of(trained, one, ListStatistics(1.0, np.zeros((3, len(counts))), 0.0), names)
    rows_per_page, n = page_rows(example.kept), int(counts.sum())
    frame = Frame(
        directory=directory,
        name=name,
        counts=counts,
        second_counts=np.stack(of_copies).sum(axis=0, dtype=np.int64) if of_copies else None,
        shapes={},
        places={},
        rows_per_page=rows_per_page,
        unpacked=example.packed.unpacked,
        block_rows=example.blocks.size,
    )
    pages = -(-n // rows_per_page)
    spread = ListStatistics(1.0, np.zeros((3, len(counts))), 0.0)
    checks, second = np.zeros(len(counts), np.uint32), frame.second_blocks
    small = small_arrays(
        counts, spread, checks, np.zeros(pages, np.uint32), None if second is None else (counts, checks)
    )
    shapes = {part: (array.dtype, array.shape) for part, array in small.items()}
    blocks = {} if frame.unpacked else {"codes": frame.blocks.count}
    if second is not None:
        blocks["second_codes"] = second.count
    for part, array in large_arrays(example).items():
        length = len(array) if part in STRING_ID_ARRAYS else blocks.get(part, n)
        shapes[part] = (array.dtype.newbyteorder("<"), (length, *array.shape[1:]))
    return replace(frame, shapes=shapes)


def one_row(part: PartFile) -> EncodedRows:
    """Return the first row of a part, and any code in a second list if there are such, in memory."""
    everything, first = slice(0, len(part.counts)), slice(0, 1)
    columns, copies = part.rows(everything).taken(first).columns(), part.copies(everything)
    if copies is not None:
        some = copies.taken(first).columns()
        columns |= {
            name: some[name.removeprefix(SECOND)]
            for name in SECOND_COLUMNS
            if name.removeprefix(SECOND) in some
        }
    return EncodedRows.of({name: np.array(column) for name, column in columns.items()})


def placed(frame: Frame, parts: Sequence[Encoded], extra: int = 0) -> Frame:
    """Return the layout with offsets, for a header of the expected length plus `extra` bytes."""
    checks = {part: USUAL_CHECK for part in SMALL if part in frame.shapes}
    large_checks = {part: USUAL_CHECK for part in LATER if part in frame.shapes}
    spread = spread_of(parts, np.zeros((3, len(frame.counts))))
    metadata = segment_metadata(frame.blocks, spread, frame.rows_per_page, checks, large_checks)
    _, places = header_for(frame.shapes, metadata)
    return replace(frame, places={name: place + extra for name, place in places.items()})


def spread_of(parts: Sequence[Encoded], sums: NDArray[np.float64]) -> ListStatistics:
    """Return the statistics of all rows; residuals are summed in the order of batches, as in one process."""
    total, first = 0.0, True
    for part in parts:
        for residuals in part.residuals:
            total, first = (residuals if first else residuals + total), False
    return ListStatistics(max(part.reach for part in parts), sums, total)


def write_lists(frame: Frame, trained: Trained, entries: Sequence[FileEntry], lists: slice) -> Written:
    """Merge a range of lists of all parts, pack it and write it to its offsets. A task may be repeated."""
    parts = [PartFile(frame.directory, entry) for entry in entries]
    totals = np.zeros((lists.stop - lists.start, 3))
    for part in parts:
        part.add_sums(lists, totals)
    list_checks, (first_page, page_checks) = write_rows(frame, trained, parts, lists)
    second = frame.second_blocks
    return Written(
        lists=lists,
        list_checks=list_checks,
        sums=totals.T,
        first_page=first_page,
        page_checks=page_checks,
        second_checks=None if second is None else write_copies(frame, trained, parts, lists, second),
    )


def write_rows(
    frame: Frame, trained: Trained, parts: Sequence[PartFile], lists: slice
) -> tuple[NDArray[np.uint32], tuple[int, NDArray[np.uint32]]]:
    """Write the rows of a range of lists; return checksums of lists, and `checks_of_pages`."""
    counts = frame.counts[lists]
    builder, list_checks = EncodedRowsBuilder(int(counts.sum())), np.zeros(len(counts), np.uint32)
    nothing = ListStatistics(0.0, np.zeros((3, 0)), 0.0)
    for part in parts:
        some = part.rows(lists)
        if len(some):
            builder.append(some, nothing)
    if builder.count == 0:
        return list_checks, (0, np.zeros(0, np.uint32))
    rows, _ = builder.finish()
    rows.sort_by_list()
    blocks = Blocks.of(counts, dense=frame.dense, size=frame.block_rows)
    packed = trained.codebooks.pack(blocks, rows)
    columns = {name: getattr(rows, name) for name in ("gains", "biases", "kept", "units", "ids")}
    segment = Segment(trained, blocks, packed, nothing, **columns)
    one_page = np.empty(1, np.uint32)
    guard_of(segment, "", len(rows), list_checks, one_page).compute(out_lists=list_checks, out_pages=one_page)
    by_block = [] if frame.unpacked else ["codes"]
    write_arrays(frame, large_arrays(segment), frame.blocks, lists.start, by_block)
    first = int(frame.blocks.rows[lists.start])
    return list_checks, checks_of_pages(segment.kept, first, frame.rows_per_page, frame)


def write_copies(
    frame: Frame, trained: Trained, parts: Sequence[PartFile], lists: slice, second: Blocks
) -> NDArray[np.uint32]:
    """Write the codes in a range of second lists, whose blocks are `second`; return their checksums."""
    found = []
    place = frame.blocks.rows[:-1].copy()  # of the first row of each list that is in this part or a later one
    for part in parts:
        copies = part.copies(lists)
        if copies is not None and len(copies):
            first_lists = np.searchsorted(part.starts, copies.ids, side="right") - 1
            found.append(replace(copies, ids=copies.ids + (place - part.starts[:-1])[first_lists]))
        place += part.counts
    if not found:
        return np.zeros(lists.stop - lists.start, np.uint32)
    copies = EncodedRows.joined(found)
    copies = copies.taken(np.lexsort((copies.ids, copies.lists)))
    blocks = Blocks.of(np.diff(second.rows)[lists], dense=frame.dense, size=frame.block_rows)
    codes = SecondCodes.of(trained.codebooks, frame.blocks, blocks, copies)
    write_arrays(frame, second_arrays(codes), second, lists.start, ["second_codes"])
    return second_checks(codes)


def write_arrays(
    frame: Frame, arrays: Arrays, blocks: Blocks, first_list: int, by_block: Sequence[str]
) -> None:
    """Write arrays of rows, and of blocks those named in `by_block`, that begin with a list of `blocks`."""
    first_row, first_block = int(blocks.rows[first_list]), int(blocks.places[first_list]) // blocks.size
    descriptor = os.open(frame.path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for name, array in arrays.items():
            start = first_block if name in by_block else first_row
            width = size_of((frame.shapes[name][0], frame.shapes[name][1][1:]))
            write_at(descriptor, frame.places[name] + start * width, as_bytes(array))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checks_of_pages(
    kept: NDArray[Any], first: int, rows_per_page: int, frame: Frame
) -> tuple[int, NDArray[np.uint32]]:
    """Return the number of the first complete page in rows from `first` on, and all their checksums."""
    n, last = int(frame.counts.sum()), first + len(kept)
    first_page = -(-first // rows_per_page)
    end_page = -(-n // rows_per_page) if last == n else last // rows_per_page
    if end_page <= first_page:
        return first_page, np.zeros(0, np.uint32)
    some = kept[first_page * rows_per_page - first : end_page * rows_per_page - first]
    rows = np.array([0, len(some)])
    checks, one_list = np.empty(end_page - first_page, np.uint32), np.empty(1, np.uint32)
    flat = as_bytes(some).reshape(len(some), -1)
    guard = _core.Guard(
        file="",
        rows=rows,
        places=rows,
        rows_per_block=1,
        by_block=[],
        by_row=[],
        kept=flat,
        rows_per_page=rows_per_page,
        list_checks=one_list,
        page_checks=checks,
    )
    guard.compute(out_lists=one_list, out_pages=checks)
    return first_page, checks


def write_at(descriptor: int, offset: int, content: NDArray[np.uint8]) -> None:
    """Write bytes at an offset of a file."""
    left = memoryview(cast(Any, content))
    while left.nbytes:
        done = os.pwrite(descriptor, left, offset)
        left, offset = left[done:], offset + done


def reserve(frame: Frame) -> None:
    """Create the segment file in its final size, without content."""
    descriptor = os.open(frame.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.truncate(descriptor, frame.size)
    finally:
        os.close(descriptor)


def finish(
    frame: Frame, parts: Sequence[Encoded], written: Sequence[Written], names: StringIds | None
) -> FileEntry:
    """Write string ids, statistics, checksums and the header; return the entry of the complete file."""
    n_lists, pages = len(frame.counts), frame.shapes["page_checks"][1][0]
    list_checks, sums = np.empty(n_lists, np.uint32), np.empty((3, n_lists))
    checks_of_copies = np.empty(n_lists, np.uint32)
    page_checks, known = np.empty(pages, np.uint32), np.zeros(pages, bool)
    for some in written:
        list_checks[some.lists], sums[:, some.lists] = some.list_checks, some.sums
        if some.second_checks is not None:
            checks_of_copies[some.lists] = some.second_checks
        within = slice(some.first_page, some.first_page + len(some.page_checks))
        page_checks[within], known[within] = some.page_checks, True
    content = np.memmap(frame.path, np.uint8, "r+")
    string_ids: Arrays = {}
    if names is not None:
        string_ids = {"text": names.text, "text_ends": names.ends, "text_hashes": names.hashes}
    for part, array in string_ids.items():
        as_array(frame, content, part).reshape(-1)[:] = as_bytes(array)
    kept = as_array(frame, content, "kept")
    width = size_of((frame.shapes["kept"][0], frame.shapes["kept"][1][1:])) * frame.rows_per_page
    for page in np.flatnonzero(~known):  # pages across the ranges of two tasks
        page_checks[page] = _core.crc32c(np.ascontiguousarray(kept[page * width : (page + 1) * width]))
    spread = spread_of(parts, sums)
    second = None if frame.second_counts is None else (frame.second_counts, checks_of_copies)
    small = small_arrays(frame.counts, spread, list_checks, page_checks, second)
    checks = {part: checksum(array) for part, array in small.items()}
    large_checks = {part: checksum(as_array(frame, content, part)) for part in LATER if part in frame.shapes}
    metadata = segment_metadata(frame.blocks, spread, frame.rows_per_page, checks, large_checks)
    header, places = header_for(frame.shapes, metadata)
    if places != frame.places:
        moved = replace(frame, places=places)
        del kept
        content = move(frame, moved, content)
        frame = moved
    for part, array in small.items():
        as_array(frame, content, part)[:] = as_bytes(array)
    content[: len(header)] = np.frombuffer(header, np.uint8)
    content.flush()
    size = len(content)
    del content
    descriptor = os.open(frame.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return FileEntry(file=frame.path.name, bytes=size, check=checksum(np.frombuffer(header, np.uint8)))


def as_array(frame: Frame, content: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    """Return the bytes of an array of the file."""
    return content[frame.places[name] : frame.places[name] + size_of(frame.shapes[name])]


def move(frame: Frame, moved: Frame, content: Any) -> Any:
    """Move all arrays within the file, because the header is longer or shorter than expected."""
    ahead = moved.places["codes"] > frame.places["codes"]
    if ahead:
        del content
        os.truncate(frame.path, moved.size)
        content = np.memmap(frame.path, np.uint8, "r+")
    for name in sorted(frame.places, key=frame.places.__getitem__, reverse=ahead):
        start, goal, size = frame.places[name], moved.places[name], size_of(frame.shapes[name])
        steps = range(0, size, COPIED_AT_ONCE)
        for step in reversed(steps) if ahead else steps:
            count = min(COPIED_AT_ONCE, size - step)
            content[goal + step : goal + step + count] = content[start + step : start + step + count].copy()
    # Bytes between arrays are zero, as in a build in one process.
    end = 0
    for name in sorted(moved.places, key=moved.places.__getitem__):
        content[end : moved.places[name]] = 0
        end = moved.places[name] + size_of(moved.shapes[name])
    if not ahead:
        content.flush()
        del content
        os.truncate(frame.path, moved.size)
        content = np.memmap(frame.path, np.uint8, "r+")
    return content


def ranges_of_lists(frame: Frame, most_rows: int) -> list[slice]:
    """Return ranges of consecutive lists with at most `most_rows` rows each, but at least one list."""
    if frame.dense:  # small; lists share blocks, so one task must write them all
        return [slice(0, len(frame.counts))]
    starts, found, first = frame.blocks.rows, [], 0
    while first < len(frame.counts):
        last = int(np.searchsorted(starts, starts[first] + most_rows, side="right")) - 1
        last = min(max(last, first + 1), len(frame.counts))
        found.append(slice(first, last))
        first = last
    return found
