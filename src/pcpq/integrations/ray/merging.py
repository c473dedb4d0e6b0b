"""From files of rows, each sorted by list, to one segment: some lists at a time, each in its place of the file.

The file is the one that a build in one process writes. Everything in its header but three checksums is known
before the rows are; how long it is, nearly always. Tasks write their lists where they belong then, the header
comes last. If it turns out longer or shorter, the rest of the file is moved.
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
from pcpq.quantizers.codes import Codes
from pcpq.segment.encoded_rows import RowsBuilder
from pcpq.segment.ids import Names
from pcpq.segment.list_statistics import Spread
from pcpq.segment.packing import BLOCK, Blocks
from pcpq.segment.segment import LEAST_ROWS_A_BLOCK, Segment
from pcpq.segment.trained import Trained
from pcpq.store.serialization import LATER, Arrays, guard_of, large_arrays, page_of, segment_words, small_arrays
from pcpq.store.tensors import FileEntry, Shape, as_bytes, checksum, header_for

# A checksum of as many digits as most have.
USUAL_CHECK = (1 << 32) - 1
COPIED_AT_ONCE = 1 << 24
# Arrays of the words of numbers, which no task writes.
NAMED = ("text", "text_ends", "text_hashes")
SMALL = ("counts", "sums", "list_checks", "page_checks")


@dataclass(frozen=True)
class Frame:
    """A segment of all parts: how many rows its lists have, and where in the file arrays begin."""

    directory: Path
    name: str
    counts: NDArray[np.int64]  # (L,)
    shapes: dict[str, Shape]  # of every array
    places: dict[str, int]  # where each begins, if the header is as long as expected
    rows_a_page: int
    unpacked: bool

    @property
    def path(self) -> Path:
        """The file."""
        return self.directory / f"segment-{self.name}.safetensors"

    @property
    def blocks(self) -> Blocks:
        """Where lists begin."""
        return Blocks.of(self.counts, dense=self.dense)

    @property
    def dense(self) -> bool:
        """Whether lists share blocks, as Segment.of has it."""
        return int(self.counts.sum()) < LEAST_ROWS_A_BLOCK * len(self.counts)

    @property
    def size(self) -> int:
        """Of the file in bytes."""
        ends = [place + size_of(self.shapes[name]) for name, place in self.places.items()]
        return max(ends)


class Written(NamedTuple):
    """Some lists that are in their place, and what is to be said of them."""

    lists: slice
    list_checks: NDArray[np.uint32]
    sums: NDArray[np.float64]  # (3, lists)
    first_page: int
    page_checks: NDArray[np.uint32]  # of pages that lie within these lists


def size_of(shape: Shape) -> int:
    """In bytes."""
    return int(np.prod(shape[1], dtype=np.int64)) * shape[0].itemsize


def frame_of(
    directory: Path, name: str, trained: Trained, parts: Sequence[Encoded], names: Names | None
) -> Frame:
    """What the file of all parts will be like, seen from one row."""
    counts: NDArray[np.int64] = np.stack([part.counts for part in parts]).sum(axis=0, dtype=np.int64)
    filled = int(np.flatnonzero(parts[0].counts)[0])
    one = PartFile(directory, parts[0].entry).rows(slice(filled, filled + 1)).taken(slice(0, 1))
    alone = Segment.of(trained, own(one), Spread(1.0, np.zeros((3, len(counts))), 0.0), names)
    rows_a_page, n = page_of(alone.kept), int(counts.sum())
    frame = Frame(directory, name, counts, {}, {}, rows_a_page, alone.packed.unpacked)
    pages = -(-n // rows_a_page)
    spread = Spread(1.0, np.zeros((3, len(counts))), 0.0)
    small = small_arrays(counts, spread, np.zeros(len(counts), np.uint32), np.zeros(pages, np.uint32))
    shapes = {part: (array.dtype, array.shape) for part, array in small.items()}
    for part, array in large_arrays(alone).items():
        by_block = part == "codes" and not alone.packed.unpacked
        length = len(array) if part in NAMED else frame.blocks.count if by_block else n
        shapes[part] = (array.dtype.newbyteorder("<"), (length, *array.shape[1:]))
    return replace(frame, shapes=shapes)


def own(rows: Any) -> Any:
    """Rows in memory of their own, which may be sorted."""
    return type(rows).of({name: np.array(column) for name, column in rows.columns().items()})


def placed(frame: Frame, parts: Sequence[Encoded], extra: int = 0) -> Frame:
    """With places, for a header as long as expected, or `extra` longer."""
    checks = dict.fromkeys(SMALL, USUAL_CHECK)
    later = {part: USUAL_CHECK for part in LATER if part in frame.shapes}
    spread = spread_of(parts, np.zeros((3, len(frame.counts))))
    words = segment_words(frame.blocks, spread, frame.rows_a_page, checks, later)
    _, places = header_for(frame.shapes, words)
    return replace(frame, places={name: place + extra for name, place in places.items()})


def spread_of(parts: Sequence[Encoded], sums: NDArray[np.float64]) -> Spread:
    """Of all rows; batches are added up one after the other."""
    total, first = 0.0, True
    for part in parts:
        for residuals in part.residuals:
            total, first = (residuals if first else residuals + total), False
    return Spread(max(part.reach for part in parts), sums, total)


def write_lists(frame: Frame, trained: Trained, entries: Sequence[FileEntry], lists: slice) -> Written:
    """Some lists of all parts, sorted, packed and written to their place; to write them twice does no harm."""
    parts = [PartFile(frame.directory, entry) for entry in entries]
    counts = frame.counts[lists]
    builder, totals = RowsBuilder(int(counts.sum())), np.zeros((len(counts), 3))
    nothing = Spread(0.0, np.zeros((3, 0)), 0.0)
    for part in parts:
        part.add_sums(lists, totals)
        some = part.rows(lists)
        if len(some):
            builder.append(some, nothing)
    first, last = (int(frame.blocks.rows[number]) for number in (lists.start, lists.stop))
    if builder.count == 0:
        return Written(lists, np.zeros(len(counts), np.uint32), totals.T, 0, np.zeros(0, np.uint32))
    rows, _ = builder.finish()
    rows.sort_by_list()
    blocks = Blocks.of(counts, dense=frame.dense)
    codes = Codes(rows.centers, rows.scales)
    packed = trained.codebooks.pack(blocks, rows.lists, codes, rows.bias_bytes)
    judged_by = (rows.gains, rows.biases, rows.kept, rows.units, rows.ids)
    segment = Segment(trained, blocks, packed, nothing, *judged_by)
    list_checks = np.empty(len(counts), np.uint32)
    one_page = np.empty(1, np.uint32)
    guard_of(segment, "", max(1, last - first), list_checks, one_page).compute(list_checks, one_page)
    first_page, page_checks = checks_of_pages(segment.kept, first, frame.rows_a_page, frame)
    descriptor = os.open(frame.path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for name, array in large_arrays(segment).items():
            by_block = name == "codes" and not frame.unpacked
            start = int(frame.blocks.places[lists.start]) // BLOCK if by_block else first
            width = size_of((frame.shapes[name][0], frame.shapes[name][1][1:]))
            write_at(descriptor, frame.places[name] + start * width, as_bytes(array))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return Written(lists, list_checks, totals.T, first_page, page_checks)


def checks_of_pages(
    kept: NDArray[Any], first: int, rows_a_page: int, frame: Frame
) -> tuple[int, NDArray[np.uint32]]:
    """Of pages that lie within rows from `first` on, and which is the first of them."""
    n, last = int(frame.counts.sum()), first + len(kept)
    first_page = -(-first // rows_a_page)
    end_page = -(-n // rows_a_page) if last == n else last // rows_a_page
    if end_page <= first_page:
        return first_page, np.zeros(0, np.uint32)
    some = kept[first_page * rows_a_page - first : end_page * rows_a_page - first]
    rows = np.array([0, len(some)])
    places = np.array([0, -(-len(some) // BLOCK) * BLOCK])
    checks, one_list = np.empty(end_page - first_page, np.uint32), np.empty(1, np.uint32)
    flat = as_bytes(some).reshape(len(some), -1)
    guard = _core.Guard(
        file="",
        rows=rows,
        places=places,
        by_block=[],
        by_row=[],
        kept=flat,
        rows_per_page=rows_a_page,
        list_checks=one_list,
        page_checks=checks,
    )
    guard.compute(one_list, checks)
    return first_page, checks


def write_at(descriptor: int, place: int, content: NDArray[np.uint8]) -> None:
    """Bytes to a place in a file."""
    left = memoryview(cast(Any, content))
    while left.nbytes:
        done = os.pwrite(descriptor, left, place)
        left, place = left[done:], place + done


def reserve(frame: Frame) -> None:
    """The file, with room for everything and nothing in it yet."""
    descriptor = os.open(frame.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.truncate(descriptor, frame.size)
    finally:
        os.close(descriptor)


def finish(
    frame: Frame, parts: Sequence[Encoded], written: Sequence[Written], names: Names | None
) -> FileEntry:
    """Words, what is said of lists, and the header; the file is whole when this returns."""
    n_lists, pages = len(frame.counts), frame.shapes["page_checks"][1][0]
    list_checks, sums = np.empty(n_lists, np.uint32), np.empty((3, n_lists))
    page_checks, known = np.empty(pages, np.uint32), np.zeros(pages, bool)
    for some in written:
        list_checks[some.lists], sums[:, some.lists] = some.list_checks, some.sums
        within = slice(some.first_page, some.first_page + len(some.page_checks))
        page_checks[within], known[within] = some.page_checks, True
    content = np.memmap(frame.path, np.uint8, "r+")
    named: Arrays = {}
    if names is not None:
        named = {"text": names.text, "text_ends": names.ends, "text_hashes": names.hashes}
    for part, array in named.items():
        as_array(frame, content, part).reshape(-1)[:] = as_bytes(array)
    kept = as_array(frame, content, "kept")
    width = size_of((frame.shapes["kept"][0], frame.shapes["kept"][1][1:])) * frame.rows_a_page
    for page in np.flatnonzero(~known):  # those that end in another list than they begin in
        page_checks[page] = _core.crc32c(np.ascontiguousarray(kept[page * width : (page + 1) * width]))
    spread = spread_of(parts, sums)
    small = small_arrays(frame.counts, spread, list_checks, page_checks)
    checks = {part: checksum(array) for part, array in small.items()}
    later = {part: checksum(as_array(frame, content, part)) for part in LATER if part in frame.shapes}
    words = segment_words(frame.blocks, spread, frame.rows_a_page, checks, later)
    header, places = header_for(frame.shapes, words)
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
    return FileEntry(frame.path.name, size, checksum(np.frombuffer(header, np.uint8)))


def as_array(frame: Frame, content: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    """The bytes of an array of the file."""
    return content[frame.places[name] : frame.places[name] + size_of(frame.shapes[name])]


def move(frame: Frame, moved: Frame, content: Any) -> Any:
    """All large arrays to where they belong, within the file: the header is not as long as was expected."""
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
    # What lies between arrays is zero.
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
    """Lists one after the other, so many that their rows are at most `most_rows`; one list at least."""
    if frame.dense:  # small, and lists share blocks
        return [slice(0, len(frame.counts))]
    starts, found, first = frame.blocks.rows, [], 0
    while first < len(frame.counts):
        last = int(np.searchsorted(starts, starts[first] + most_rows, side="right")) - 1
        last = min(max(last, first + 1), len(frame.counts))
        found.append(slice(first, last))
        first = last
    return found
