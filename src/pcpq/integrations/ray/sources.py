"""Vectors in pieces: local files, files that fsspec reads, or blocks of a Ray Data dataset."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import ray

from pcpq.errors import FormatError
from pcpq.io.arrays import FloatArray, as_vectors
from pcpq.io.formats import format_of, read_vectors
from pcpq.io.formats.npy import read_header
from pcpq.io.formats.vector_file import as_floats, check_dimensions, chosen, is_real, rows_at_once
from pcpq.io.streams import as_rows

# Marks of a URL, which a path has not.
URL_MARKS = ("://", "::")


@dataclass(frozen=True)
class Piece:
    """Consecutive vectors of the input."""

    name: str
    rows: int
    dimensions: int

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the rows from `start` to `stop` in batches."""
        raise NotImplementedError

    def column(self, name: str) -> Any:
        """Return all values of a column as an Arrow array; raise a ValueError if there are no columns."""
        raise ValueError(f"{self.name}: has no columns, so there is no column {name!r}")


@dataclass(frozen=True)
class LocalPiece(Piece):
    """A file that all nodes see under the same path."""

    vectors_column: str | None

    @classmethod
    def of(cls, path: str, column: str | None) -> LocalPiece:
        """Read the number of rows and dimensions of a file."""
        file = read_vectors(path, column=column)
        rows = sum(len(part) for part in file.vectors) if file.rows is None else file.rows
        return cls(path, rows, file.dimensions, column)

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the rows from `start` to `stop` in batches."""
        vectors = read_vectors(self.name, column=self.vectors_column).vectors
        if isinstance(vectors, np.ndarray):
            step = rows_at_once(self.dimensions)
            for first in range(start, stop, step):
                yield vectors[first : min(first + step, stop)]
            return
        done = 0
        for part in vectors:
            some = part[max(start - done, 0) : stop - done]
            done += len(part)
            if len(some):
                yield some
            if done >= stop:
                return

    def column(self, name: str) -> Any:
        """Return all values of a column as an Arrow array."""
        import pyarrow

        from pcpq.io.formats.columns import look as look_at_file
        from pcpq.io.formats.columns import parts_of

        path, format = Path(self.name), format_of(self.name)
        if format not in ("parquet", "arrow"):
            return super().column(name)
        chosen(path, "column", name, [], look_at_file(path, format)[0].names)
        return pyarrow.chunked_array(list(parts_of(path, format, name, 1 << 16)))


@dataclass(frozen=True)
class NpyPiece(Piece):
    """An .npy file on a file system of fsspec."""

    system: Any
    start: int
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, name: str, system: Any) -> NpyPiece:
        """Read the header of a file; raise an error unless it holds (n, d) real numbers by row."""
        with system.open(name, "rb") as file:
            try:
                header = read_header(file)
            except (ValueError, KeyError, TypeError, SyntaxError) as error:
                raise FormatError(f"{name}: cannot be read: {error}") from error
        if len(header.shape) != 2 or header.by_column or not is_real(header.dtype):
            order = ", column by column" if header.by_column else ""
            raise ValueError(
                f"{name}: holds {header.dtype} of shape {header.shape}{order}; expected (n, d) numbers by row"
            )
        check_dimensions(as_path(name), header.shape[1])
        return cls(name, header.shape[0], header.shape[1], system, header.start, header.dtype)

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the rows from `start` to `stop` in batches."""
        width, step = self.dimensions * self.dtype.itemsize, rows_at_once(self.dimensions)
        with self.system.open(self.name, "rb") as file:
            file.seek(self.start + start * width)
            for first in range(start, stop, step):
                wanted = (min(first + step, stop) - first) * width
                content = file.read(wanted)
                if len(content) < wanted:
                    raise FormatError(f"{self.name}: is shorter than its header says")
                yield as_floats(np.frombuffer(content, self.dtype).reshape(-1, self.dimensions))


@dataclass(frozen=True)
class ParquetPiece(Piece):
    """A row group of a Parquet file on a file system of fsspec."""

    system: Any
    group: int
    vectors_column: str

    @classmethod
    def of(cls, name: str, system: Any, column: str | None) -> list[ParquetPiece]:
        """Return the row groups of a file that are not empty."""
        from pyarrow.parquet import ParquetFile

        from pcpq.io.formats.columns import is_vector

        with system.open(name, "rb") as handle:
            file = ParquetFile(handle)
            schema, counts = file.schema_arrow, []
            for group in range(file.metadata.num_row_groups):
                counts.append(file.metadata.row_group(group).num_rows)
            candidates = [field.name for field in schema if is_vector(field.type)]
            found = chosen(as_path(name), "column", column, candidates, schema.names)
            first = next(file.iter_batches(1, columns=[found]), None)
        if first is None:
            raise FormatError(f"{name}: has 0 rows: there are no vectors")
        dimensions = arrow_rows(first.column(found)).shape[1]
        return [
            cls(name, count, dimensions, system, group, found) for group, count in enumerate(counts) if count
        ]

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the rows from `start` to `stop` in batches."""
        from pyarrow.parquet import ParquetFile

        done = 0
        with self.system.open(self.name, "rb") as handle:
            file = ParquetFile(handle, pre_buffer=False)
            step, columns = rows_at_once(self.dimensions), [self.vectors_column]
            for batch in file.iter_batches(step, row_groups=[self.group], columns=columns):
                some = batch.slice(max(start - done, 0), max(0, stop - max(done, start)))
                done += len(batch)
                if len(some):
                    yield as_floats(arrow_rows(some.column(self.vectors_column)))
                if done >= stop:
                    return

    def column(self, name: str) -> Any:
        """Return all values of a column of the row group as an Arrow array."""
        from pyarrow.parquet import ParquetFile

        with self.system.open(self.name, "rb") as handle:
            file = ParquetFile(handle)
            chosen(as_path(self.name), "column", name, [], file.schema_arrow.names)
            return file.read_row_group(self.group, columns=[name]).column(name)


@dataclass(frozen=True)
class BlockPiece(Piece):
    """A block of a Ray Data dataset in the object store of the cluster."""

    block: Any
    vectors_column: str

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the rows from `start` to `stop` in batches."""
        step = rows_at_once(self.dimensions)
        table = as_table(ray.get(self.block))
        for first in range(start, stop, step):
            some = table.slice(first, min(first + step, stop) - first)
            yield as_floats(arrow_rows(some.column(self.vectors_column)))

    def column(self, name: str) -> Any:
        """Return all values of a column as an Arrow array."""
        table = as_table(ray.get(self.block))
        chosen(as_path(self.name), "column", name, [], table.column_names)
        return table.column(name)


class Source:
    """All pieces in order, with rows numbered as in one array."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = [piece for piece in pieces if piece.rows]
        if not self.pieces:
            raise ValueError("vectors are empty: there are no rows")
        self.dimensions = self.pieces[0].dimensions
        for piece in self.pieces:
            if piece.dimensions != self.dimensions:
                raise ValueError(
                    f"{piece.name}: vectors have {piece.dimensions} dimensions, those of "
                    f"{self.pieces[0].name} have {self.dimensions}"
                )
        self.ends = np.cumsum([piece.rows for piece in self.pieces])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the rows from `start` to `stop` in batches that end with each piece."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        for piece, end in zip(self.pieces[first:], self.ends[first:], strict=True):
            begin = int(end) - piece.rows
            if begin >= stop:
                return
            yield from piece.parts(max(start - begin, 0), min(stop - begin, piece.rows))

    def batches(self, start: int, stop: int, step: int) -> Iterator[FloatArray]:
        """Yield the rows from `start` to `stop` in batches of `step` rows, as a build in one process does."""
        held: list[FloatArray] = []
        count = 0
        for part in self.parts(start, stop):
            part = as_vectors(part, dimensions=self.dimensions)
            while len(part):
                some = part[: step - count]
                part = part[len(some) :]
                held.append(some)
                count += len(some)
                if count == step:
                    yield joined(held)
                    held, count = [], 0
        if held:
            yield joined(held)

    def take(self, numbers: Any, start: int, stop: int) -> FloatArray:
        """Return the (n, d) rows with these ascending numbers, which lie between `start` and `stop`."""
        found, done = [], start
        for part in self.parts(start, stop):
            low, high = np.searchsorted(numbers, [done, done + len(part)])
            if high > low:
                found.append(np.array(part[numbers[low:high] - done]))
            done += len(part)
        return joined(found)


def as_path(address: str) -> Path:
    """Return a URL in place of a Path, for messages only; a real Path would drop slashes of the URL."""
    return cast(Path, address)


def joined(parts: list[FloatArray]) -> FloatArray:
    """Concatenate arrays; raise a ValueError unless they have the same precision, as one array has."""
    kinds = {part.dtype for part in parts}
    if len(kinds) > 1:
        raise ValueError(
            f"vectors are of {' and '.join(sorted(map(str, kinds)))}; all must be of one precision"
        )
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def source_of(vectors: Any, column: str | None) -> Source:
    """Return the source of a path, a glob, a URL, a list of these, or a Ray Data dataset."""
    if hasattr(vectors, "materialize") and hasattr(vectors, "iter_batches"):
        return Source(blocks_of(vectors, column))
    given = [vectors] if isinstance(vectors, (str, os.PathLike)) else list(vectors)
    pieces: list[Piece] = []
    for one in given:
        if not isinstance(one, (str, os.PathLike)):
            raise ValueError(f"vectors are {type(one).__name__}; expected paths, URLs or a Ray dataset")
        pieces += pieces_at(os.fspath(one), column)
    return Source(pieces)


def pieces_at(address: str, column: str | None) -> list[Piece]:
    """Return the pieces of a path, a glob or a URL; files of a glob are sorted by name."""
    if not any(mark in address for mark in URL_MARKS):
        found = sorted(glob.glob(address)) if glob.has_magic(address) else [address]
        if not found:
            raise FileNotFoundError(f"{address}: matches no file")
        return [LocalPiece.of(os.path.abspath(path), column) for path in found]
    import fsspec

    system, path = fsspec.core.url_to_fs(address)
    found = sorted(system.glob(path)) if glob.has_magic(path) else [path]
    if not found:
        raise FileNotFoundError(f"{address}: matches no file")
    pieces: list[Piece] = []
    for name in found:
        format = format_of(name)
        if format == "npy" and column is None:
            pieces.append(NpyPiece.of(name, system))
        elif format == "parquet":
            pieces += ParquetPiece.of(name, system, column)
        else:
            raise ValueError(f"{name}: only .npy (without columns) and .parquet files can be read from URLs")
    return pieces


def blocks_of(dataset: Any, column: str | None) -> list[Piece]:
    """Return the blocks of a dataset in order; the dataset is computed once."""
    context = ray.data.DataContext.get_current()
    before = context.execution_options.preserve_order
    context.execution_options.preserve_order = True
    try:
        blocks = dataset.materialize().get_internal_block_refs()
    finally:
        context.execution_options.preserve_order = before
    shapes = ray.get([block_shape_task.remote(block, column) for block in blocks])
    return [
        BlockPiece(f"block {number}", rows, dimensions, block, found)
        for number, (block, (rows, dimensions, found)) in enumerate(zip(blocks, shapes, strict=True))
        if rows
    ]


def block_shape(block: Any, column: str | None) -> tuple[int, int, str]:
    """Return the number of rows and of dimensions of a block, and the name of its column of vectors."""
    from pcpq.io.formats.columns import is_vector

    table = as_table(block)
    if not len(table):
        return 0, 0, ""
    candidates = [field.name for field in table.schema if is_vector(field.type)]
    found = chosen(as_path("the dataset"), "column", column, candidates, table.column_names)
    return len(table), arrow_rows(table.slice(0, 1).column(found)).shape[1], found


def as_table(block: Any) -> Any:
    """Return a block as an Arrow table; Ray stores some blocks as data frames."""
    import pyarrow

    return block if isinstance(block, pyarrow.Table) else pyarrow.Table.from_pandas(block, preserve_index=False)


def arrow_rows(column: Any) -> FloatArray:
    """Return an Arrow column of lists or tensors as an (n, d) array."""
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
        if hasattr(column, "chunks"):  # some versions of Arrow return a chunked array
            column = column.chunk(0)
    if hasattr(column, "to_numpy_ndarray"):
        return np.asarray(column.to_numpy_ndarray())
    rows: FloatArray = as_rows(getattr(column, "storage", column))
    return rows


def values_of(column: Any, name: str) -> Any:
    """Return a column as ids: int64 numbers or a list of strings; raise a ValueError if it has nulls."""
    import pyarrow

    from pcpq.io.formats.columns import check_ids

    check_ids(as_path(name), name, column.type)
    if column.null_count:
        raise ValueError(f"column {name!r} has {column.null_count} nulls; every vector must have an id")
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_integer(column.type):
        return np.asarray(column.cast(pyarrow.int64()))
    return column.to_pylist()


block_shape_task = ray.remote(block_shape)
