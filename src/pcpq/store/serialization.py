"""Conversion of trained models and segments to files of arrays with JSON metadata, and back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.config import KEEPS, METRICS
from pcpq.errors import FormatError
from pcpq.ivf.partition import Partition
from pcpq.quantizers import Quantizer, options_of, quantizer_from_json, quantizer_to_json, restore_fitted
from pcpq.quantizers.codes import Model
from pcpq.quantizers.encoder import scale_columns
from pcpq.quantizers.sections import Layout
from pcpq.segment.codebooks import WIDE, Codebooks, PackedCodes, fits_wide
from pcpq.segment.ids import StringIds
from pcpq.segment.kept_vectors import LARGEST_INTEGER
from pcpq.segment.list_statistics import ListStatistics
from pcpq.segment.packing import Blocks
from pcpq.segment.second_codes import SecondCodes, check_copies
from pcpq.segment.segment import Segment
from pcpq.segment.trained import Trained
from pcpq.store.files import reading
from pcpq.store.limits import (
    BOOK_RANGES,
    MOST_CENTROID,
    MOST_FLOAT,
    MOST_ROTATION,
    MOST_ROWS,
    SEGMENT_RANGES,
    TRAINED_RANGES,
    check_booleans,
    check_codebook,
    check_ids,
    check_numbers,
    check_same_shapes,
    check_strings_differ,
    floats,
)
from pcpq.store.tensors import FileEntry, Tensors, as_bytes, checksum, write_tensors
from pcpq.util.validation import one_of, whole_number

Arrays = dict[str, NDArray[Any]]
ABOUT = "pcpq"  # the only key of the metadata
PAGE_BYTES = 4096
# Names of the arrays of a codebook in a file, and of the fields of Model.
MODEL_ARRAYS = {
    "centers": "codewords",
    "readout": "readout",
    "scales": "scales",
    "vector_levels": "vector_levels",
    "whitening": "whitening",
    "section_thresholds": "section_thresholds",
}
MODEL_NUMBERS = ("unit", "vector_threshold", "gain", "bias_weight", "anchored")
TRAINED_NUMBERS = ("metric", "keep", "dimensions", "unit", "residual", "bias_low", "bias_step")
ROW_COLUMNS = ("gains", "biases", "units", "ids")
# Arrays whose checksum covers the whole array; it is compared when ids are first needed.
LATER = ("ids", "text", "text_ends", "text_hashes")
KEPT = {"int8": "I8", "int16": "I16", "float16": "F16", "float32": "F32", None: "U8"}


def write_trained(path: Path, trained: Trained) -> FileEntry:
    """Write the trained model of an index to a new file."""
    arrays: Arrays = {
        "centers": trained.partition.centroids,
        "spreads": trained.partition.spreads,
        "offsets": trained.partition.offsets,
    }
    for part in ("matrix", "projection"):
        if (array := getattr(trained, part)) is not None:
            arrays[part] = array
    books = list({id(book): book for book in trained.codebooks.quantizers}.values())
    numbers = {id(book): number for number, book in enumerate(books)}
    arrays["books"] = np.array([numbers[id(book)] for book in trained.codebooks.quantizers], np.int32)
    arrays["columns"] = trained.codebooks.model.layout.columns.astype(np.int64)
    for number, book in enumerate(books):
        for part, field in MODEL_ARRAYS.items():
            if (array := getattr(book.model_, field)) is not None:
                arrays[f"{number}.{part}"] = array
    layout = trained.codebooks.model.layout
    about = {number: getattr(trained, number) for number in TRAINED_NUMBERS} | {
        "sections": [layout.n_sections, layout.section_size],
        **({"wide": True} if trained.codebooks.wide else {}),
        **({"lists_per_vector": 2} if trained.lists_per_vector == 2 else {}),
        "books": [
            quantizer_to_json(book) | {number: getattr(book.model_, number) for number in MODEL_NUMBERS}
            for book in books
        ],
        "checks": {part: checksum(array) for part, array in arrays.items()},
    }
    return write_tensors(path, arrays, {ABOUT: json_text(about)})


def read_trained(directory: Path, entry: FileEntry) -> Trained:
    """Read a trained model from a file, and check all of it."""
    tensors = Tensors(directory, entry)
    about = about_of(tensors)
    check_all(tensors, about)
    with reading(tensors.path):
        d = whole_number("dimensions", about["dimensions"], 1, 1 << 24)
        m, size = (whole_number("sections", number, 1, 1 << 24) for number in about["sections"])
        check_numbers(about, TRAINED_RANGES)
        one_of("metric", about["metric"], METRICS)
        one_of("keep", about["keep"], KEEPS)
        projection = None
        if tensors.get("projection") is not None:
            projection = floats(tensors, "projection", (d, None), -MOST_ROTATION, MOST_ROTATION)
            if about["keep"] is None or projection.shape[1] > d:
                raise FormatError(
                    f"{tensors.path}: a projection of shape {projection.shape} or without kept vectors"
                )
        p = d if projection is None else projection.shape[1]
        centroids = floats(tensors, "centers", (None, p), -MOST_CENTROID, MOST_CENTROID)
        n = len(centroids)
        spreads, offsets = floats(tensors, "spreads", (n,), 0.0), floats(tensors, "offsets", (n,))
        matrix = None
        if tensors.get("matrix") is not None:
            matrix = floats(tensors, "matrix", (p, p), -MOST_ROTATION, MOST_ROTATION)
        columns = tensors.shaped("columns", "I64", (p,)).astype(np.intp)
        if len(np.unique(columns)) != p or columns.min() < 0 or columns.max() >= m * size:
            raise FormatError(f"{tensors.path}: columns are not distinct places below {m * size}")
        layout = Layout(p, m, size, columns)
        books = [_book(tensors, layout, number, book) for number, book in enumerate(about["books"])]
        numbers = tensors.shaped("books", "I32", (None,))
        if len(numbers) not in (1, n) or numbers.min() < 0 or numbers.max() >= len(books):
            raise FormatError(f"{tensors.path}: {len(numbers)} codebooks for {n} lists")
        wide = about.get("wide", False)
        check_booleans({"wide": wide}, ("wide",))
        check_same_shapes(tensors, books, len(numbers), WIDE if wide else 16)
        codebooks = Codebooks(tuple(books[number] for number in numbers), wide)
        if codebooks.wide and not fits_wide(codebooks.model, codebooks.quantizers[0]):
            raise FormatError(f"{tensors.path}: wide codes of fewer than 17 or more than {WIDE} codewords")
        per_vector = whole_number("lists_per_vector", about.get("lists_per_vector", 1), 1, 2)
        if per_vector == 2 and (about["keep"] is None or codebooks.coding == "unpacked"):
            raise FormatError(
                f"{tensors.path}: two lists per vector of unpacked codes, or without kept vectors"
            )
        settings = {number: about[number] for number in TRAINED_NUMBERS} | {"lists_per_vector": per_vector}
        partition = Partition(centroids, spreads, offsets)
        return Trained(
            partition=partition, matrix=matrix, codebooks=codebooks, projection=projection, **settings
        )


def _book(tensors: Tensors, layout: Layout, number: int, settings: Any) -> Quantizer:
    """Read one fitted quantizer."""
    book = quantizer_from_json(settings)
    m, size = layout.n_sections, layout.section_size
    arrays = {part: tensors.get(f"{number}.{part}") for part in MODEL_ARRAYS}
    shapes: dict[str, tuple[int | None, ...]] = {
        "centers": (m, None, size),
        "readout": (m, None, size),
        "scales": (m, None),
        "vector_levels": (None,),
        "whitening": (m, size, size),
        "section_thresholds": (m,),
    }
    check_numbers(settings, BOOK_RANGES)
    check_booleans(settings, ("gain", "anchored"))
    most = MOST_FLOAT / max(settings["unit"], 1.0)  # codewords are multiplied by the unit
    levels = {"quantized": {"scales"}, "vector": {"vector_levels"}, "norm": {"vector_levels"}}
    needed = {"centers", "readout"} | levels.get(options_of(book).scale, set())
    for part, array in arrays.items():
        if part in ("scales", "vector_levels") and part not in needed and array is not None:
            raise FormatError(f"{tensors.path}: {number}.{part} does not go with {type(book).__name__}")
        if array is not None or part in needed:
            arrays[part] = floats(tensors, f"{number}.{part}", shapes[part], -most, most)
    fields = {MODEL_ARRAYS[part]: array for part, array in arrays.items()}
    model = Model(layout, **fields, **{name: settings[name] for name in MODEL_NUMBERS})  # type: ignore[arg-type]
    check_codebook(tensors, number, book, model)
    return restore_fitted(book, model)


def write_segment(path: Path, segment: Segment) -> FileEntry:
    """Write a segment, with the checksums of its arrays, to a new file."""
    segment.verify()
    rows_per_page = page_rows(segment.kept)
    n_lists, n = len(segment.blocks.rows) - 1, len(segment)
    checks = np.empty(n_lists, np.uint32), np.empty(-(-n // rows_per_page), np.uint32)
    guard_of(segment, "", rows_per_page, *checks).compute(out_lists=checks[0], out_pages=checks[1])
    second = None if segment.second is None else (segment.second.counts, second_checks(segment.second))
    small = small_arrays(np.diff(segment.blocks.rows), segment.spread, *checks, second)
    large = large_arrays(segment)
    checks_of_small = {part: checksum(array) for part, array in small.items()}
    later = {part: checksum(large[part]) for part in LATER if part in large}
    about = segment_metadata(segment.blocks, segment.spread, rows_per_page, checks_of_small, later)
    return write_tensors(path, small | large, about)


def page_rows(kept: NDArray[Any]) -> int:
    """Return the number of rows of kept vectors that share a checksum."""
    return max(1, PAGE_BYTES // max(1, int(kept.shape[1]) * kept.itemsize))


def small_arrays(
    counts: NDArray[Any],
    spread: ListStatistics,
    list_checks: NDArray[np.uint32],
    page_checks: NDArray[np.uint32],
    second: tuple[NDArray[Any], NDArray[np.uint32]] | None,
) -> Arrays:
    """Return the arrays with one entry per list or page; `second` are counts and checksums of second lists."""
    small = {
        "counts": counts.astype(np.uint32),
        "sums": spread.sums.clip(-MOST_FLOAT, MOST_FLOAT).astype(np.float32),  # float32 suffices for estimates
        "list_checks": list_checks,
        "page_checks": page_checks,
    }
    if second is None:
        return small
    return small | {"second_counts": second[0].astype(np.uint32), "second_checks": second[1]}


def large_arrays(segment: Segment) -> Arrays:
    """Return the arrays with one entry per row or block, and the string ids, in the order of the file."""
    optional = {
        "code_scales": segment.packed.scales,
        "code_biases": segment.packed.biases,
        **{column: getattr(segment, column) for column in ROW_COLUMNS},
    }
    if segment.second is not None:
        optional |= second_arrays(segment.second)
    if segment.names is not None:
        names = segment.names
        optional |= {"text": names.text, "text_ends": names.ends, "text_hashes": names.hashes}
    large: Arrays = {"codes": segment.packed.blocks, "kept": segment.kept}
    return large | {part: array for part, array in optional.items() if array is not None}


def second_arrays(codes: SecondCodes) -> Arrays:
    """Return the large arrays of second lists."""
    return {"second_codes": codes.packed.blocks, "second_rows": codes.rows}


def segment_metadata(
    blocks: Blocks, spread: ListStatistics, rows_per_page: int, checks: dict[str, int], later: dict[str, int]
) -> dict[str, str]:
    """Return the metadata of a segment file; `checks` are the checksums of small arrays, `later` of LATER."""
    about = {
        "rows_a_page": rows_per_page,
        "dense": blocks.dense,
        "reach": spread.reach,
        "residuals": spread.residuals,
        "checks": checks,
        "later": later,
    }
    return {ABOUT: json_text(about)}


def read_segment(directory: Path, entry: FileEntry, name: str, trained: Trained) -> Segment:
    """Open a segment; its large arrays are read and checked when they are first used."""
    tensors = Tensors(directory, entry)
    about = about_of(tensors)
    check_all(tensors, about)
    n_lists, keep = len(trained.partition), trained.keep
    with reading(tensors.path):
        check_numbers(about, SEGMENT_RANGES)
        check_booleans(about, ("dense",))
        counts = tensors.shaped("counts", "U32", (n_lists,)).astype(np.int64)
        blocks = Blocks.of(counts, about["dense"], trained.codebooks.block_rows)
        n = int(counts.sum())
        if not 1 <= n <= MOST_ROWS:
            raise FormatError(f"{tensors.path}: has {n} rows; expected 1 to {MOST_ROWS}")
        packed = _packed(tensors, trained, blocks, n)
        needed = {"ids"} | ({"units"} if keep in LARGEST_INTEGER else set())
        columns: dict[str, Any] = {
            column: tensors.shaped(column, dtype, (n,))
            if column in needed or tensors.get(column) is not None
            else None
            for column, dtype in zip(ROW_COLUMNS, ("F16", "F32", "F32", "I64"), strict=True)
        }
        kept = tensors.shaped("kept", KEPT[keep], (n, trained.dimensions if keep else 0))
        names = None
        if tensors.get("text") is not None:
            ends, hashes = tensors.shaped("text_ends", "I64", (n,)), tensors.shaped("text_hashes", "U64", (n,))
            names = StringIds(tensors.shaped("text", "U8", (None,)), ends, hashes)
        # Earlier versions wrote infinity for very large vectors.
        sums = floats(tensors, "sums", (3, n_lists), -np.inf, np.inf).astype(np.float64)
        sums = sums.clip(-MOST_FLOAT, MOST_FLOAT)
        spread = ListStatistics(float(about["reach"]), sums, float(about["residuals"]))
        segment = Segment(
            trained,
            blocks,
            packed,
            spread,
            **columns,
            kept=kept,
            names=names,
            name=name,
            second=_second(tensors, trained, blocks) if trained.second_lists else None,
        )
        rows_per_page = whole_number("rows_a_page", about["rows_a_page"], 1, 1 << 32)
        pages = -(-n // rows_per_page)
        checks = (
            tensors.shaped("list_checks", "U32", (n_lists,)),
            tensors.shaped("page_checks", "U32", (pages,)),
        )
        guard = guard_of(segment, str(tensors.path), rows_per_page, *checks)
        later = dict(about["later"])
        for part in ("ids", *(("text", "text_ends", "text_hashes") if names else ())):
            if part not in later:
                raise FormatError(f"{tensors.path}: {part} has no checksum")
    return replace(segment, guard=Checks(guard, tensors, later))


def _second(tensors: Tensors, trained: Trained, first: Blocks) -> SecondCodes:
    """Return the codes of a segment in second lists."""
    counts = tensors.shaped("second_counts", "U32", (len(trained.partition),)).astype(np.int64)
    n = int(first.rows[-1])
    if counts.sum() != n:
        raise FormatError(f"{tensors.path}: second lists have {counts.sum()} rows; expected {n}")
    blocks = Blocks.of(counts, first.dense, first.size)
    codes = tensors.shaped("second_codes", "U8", (blocks.count, trained.codebooks.block_bytes))
    found = SecondCodes(first, blocks, PackedCodes(codes), tensors.shaped("second_rows", "I32", (n,)))
    checks = tensors.shaped("second_checks", "U32", (len(counts),))
    return replace(found, guard=SecondChecks(found, tensors.path, checks))


def _packed(tensors: Tensors, trained: Trained, blocks: Blocks, n: int) -> PackedCodes:
    """Return the packed codes of a segment, in the layout of the codebooks."""
    books = trained.codebooks
    if books.coding != "unpacked":
        return PackedCodes(tensors.shaped("codes", "U8", (blocks.count, books.block_bytes)))
    m, options = books.model.layout.n_sections, options_of(books.quantizers[0])
    width = m * np.dtype(books.model.code_dtype).itemsize
    scales, scale_width = None, scale_columns(options, m)
    if scale_width:
        scales = tensors.shaped("code_scales", "F32" if options.scale == "exact" else "U8", (n, scale_width))
    biases = tensors.shaped("code_biases", "U8", (n,))
    return PackedCodes(tensors.shaped("codes", "U8", (n, width)), scales, biases)


class Checks:
    """Checks of the arrays of a segment file. Each part is checked once, before its first use."""

    def __init__(self, guard: _core.Guard, tensors: Tensors, later: dict[str, int]) -> None:
        self.native, self._tensors, self._later = guard, tensors, later

    @property
    def path(self) -> Path:
        """The path of the segment file."""
        return self._tensors.path

    @property
    def list_checks(self) -> NDArray[np.uint32]:
        """(L,) the checksums of the lists, as stored in the file."""
        return self._tensors["list_checks"]

    def ids(self) -> None:
        """Check all ids, integers and strings."""
        if not self._later:
            return
        for part, expected in list(self._later.items()):
            self._tensors.check(part, expected)
        check_ids(self._tensors, self._tensors["ids"])
        if (ends := self._tensors.get("text_ends")) is not None:
            self._check_strings(self._tensors["text"], ends)
            check_strings_differ(self._tensors, StringIds(*(self._tensors[part] for part in LATER[1:])))
        self._later = {}

    def _check_strings(self, text: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        """Raise a FormatError unless `ends` divides the text into valid strings."""
        path = self._tensors.path
        if ends[0] < 0 or (ends[1:] < ends[:-1]).any() or ends[-1] != len(text):
            raise FormatError(f"{path}: string ids do not follow each other")
        with reading(path):
            text.tobytes().decode("utf-8", "surrogatepass")
        inside = ends[ends < len(text)]
        if (text[inside] >> 6 == 0b10).any():
            raise FormatError(f"{path}: a string id ends within a character")

    def rows(self, rows: NDArray[np.integer[Any]]) -> None:
        """Check some rows and their lists."""
        self.native.check_rows(np.ascontiguousarray(rows, np.int64))

    def everything(self) -> None:
        """Check all arrays."""
        self.native.check_all()
        self.ids()


class SecondChecks:
    """Checks of the second lists of a segment file."""

    def __init__(self, codes: SecondCodes, path: Path, checks: NDArray[np.uint32]) -> None:
        self.native, self._codes, self.path = second_guard(codes, str(path), checks), codes, path
        self._done = False

    def lists(self) -> None:
        """Check all lists."""
        self.native.check_all()

    def everything(self) -> None:
        """Check all lists, and that each row has one copy."""
        if self._done:
            return
        self.lists()
        check_copies(self._codes.rows, len(self._codes.rows), self.path)
        self._done = True


def second_guard(codes: SecondCodes, path: str, list_checks: NDArray[np.uint32]) -> _core.Guard:
    """Return the native guard of second lists: of their codes and the numbers of their rows."""
    n = len(codes.rows)
    return _core.Guard(
        file=path.encode("utf-8", "replace").decode(),
        rows=codes.blocks.rows,
        places=codes.blocks.places,
        by_block=[_by_row(codes.packed.blocks, len(codes.packed.blocks))],
        by_row=[_by_row(codes.rows, n)],
        kept=np.empty((n, 0), np.uint8),
        rows_per_block=codes.blocks.size,
        rows_per_page=n,
        list_checks=list_checks,
        page_checks=np.zeros(1, np.uint32),  # the checksum of no bytes
    )


def second_checks(codes: SecondCodes) -> NDArray[np.uint32]:
    """Return the (L,) checksums of second lists."""
    checks, no_pages = np.zeros(len(codes.counts), np.uint32), np.zeros(1, np.uint32)
    second_guard(codes, "", checks).compute(out_lists=checks, out_pages=no_pages)
    return checks


def guard_of(
    segment: Segment,
    path: str,
    rows_per_page: int,
    list_checks: NDArray[np.uint32],
    page_checks: NDArray[np.uint32],
) -> _core.Guard:
    """Return the native guard of a segment, with arrays in the order of docs/format.md."""
    path = path.encode("utf-8", "replace").decode()  # for messages; native text is UTF-8
    packed, n = segment.packed, len(segment)
    codes = [_by_row(packed.blocks, len(packed.blocks))]
    columns = [packed.scales, packed.biases, *(getattr(segment, column) for column in ROW_COLUMNS)]
    by_row = [_by_row(column, n) for column in columns if column is not None]
    by_block, by_row = ([], codes + by_row) if packed.unpacked else (codes, by_row)
    return _core.Guard(
        file=path,
        rows=segment.blocks.rows,
        places=segment.blocks.places,
        by_block=by_block,
        by_row=by_row,
        kept=_by_row(segment.kept, n),
        rows_per_block=segment.blocks.size,
        rows_per_page=rows_per_page,
        list_checks=list_checks,
        page_checks=page_checks,
    )


def file_of(segment: Segment) -> str:
    """Return the name of the file of a segment."""
    return f"segment-{segment.name}.safetensors"


def _by_row(array: NDArray[Any], n: int) -> NDArray[np.uint8]:
    width = array.nbytes // max(n, 1)
    return as_bytes(array).reshape(n, width)


def about_of(tensors: Tensors) -> dict[str, Any]:
    """Return the metadata of a file."""
    with reading(tensors.path):
        found = json.loads(tensors.metadata[ABOUT])
        if not isinstance(found, dict) or not isinstance(found["checks"], dict):
            raise FormatError(f"{tensors.path}: the metadata is not as expected")
    return found


def check_all(tensors: Tensors, about: dict[str, Any]) -> None:
    """Compare the small arrays with their checksums."""
    for part, expected in about["checks"].items():
        tensors.check(part, expected)


def json_text(about: dict[str, Any]) -> str:
    """Return a dict, which may contain NumPy scalars, as JSON text."""
    return json.dumps(about, default=lambda number: number.item())
