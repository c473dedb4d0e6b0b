"""Vectors in pieces: files that fsspec reads, files of this machine, blocks of a dataset; any rows of them."""

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

# What tells an address from a path of this machine.
ADDRESS = ("://", "::")


@dataclass(frozen=True)
class Piece:
    """Some consecutive vectors of the input."""

    name: str
    rows: int
    dimensions: int

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Rows from `start` to `stop`, a few at a time."""
        raise NotImplementedError

    def column(self, name: str) -> Any:
        """All values of a column, as Arrow has them."""
        raise ValueError(f"{self.name}: has no columns, so none is called {name!r}")


@dataclass(frozen=True)
class LocalPiece(Piece):
    """A file that every node has under the same path."""

    vectors_column: str | None

    @classmethod
    def of(cls, path: str, column: str | None) -> LocalPiece:
        """Look at a file."""
        file = read_vectors(path, column=column)
        rows = sum(len(part) for part in file.vectors) if file.rows is None else file.rows
        return cls(path, rows, file.dimensions, column)

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Rows from `start` to `stop`, a few at a time."""
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
        """All values of a column."""
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
    """An .npy file wherever it is."""

    system: Any
    start: int
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, name: str, system: Any) -> NpyPiece:
        """Look at its header."""
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
        check_dimensions(plain(name), header.shape[1])
        return cls(name, header.shape[0], header.shape[1], system, header.start, header.dtype)

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Rows from `start` to `stop`, a few at a time."""
        width, step = self.dimensions * self.dtype.itemsize, rows_at_once(self.dimensions)
        with self.system.open(self.name, "rb") as file:
            file.seek(self.start + start * width)
            for first in range(start, stop, step):
                wanted = (min(first + step, stop) - first) * width
                content = file.read(wanted)
                if len(content) < wanted:
                    raise FormatError(f"{self.name}: ends within the rows that its header tells of")
                yield as_floats(np.frombuffer(content, self.dtype).reshape(-1, self.dimensions))


@dataclass(frozen=True)
class ParquetPiece(Piece):
    """A row group of a parquet file wherever it is."""

    system: Any
    group: int
    vectors_column: str

    @classmethod
    def of(cls, name: str, system: Any, column: str | None) -> list[ParquetPiece]:
        """All groups of a file."""
        from pyarrow.parquet import ParquetFile

        from pcpq.io.formats.columns import is_vector

        with system.open(name, "rb") as handle:
            file = ParquetFile(handle)
            schema, counts = file.schema_arrow, []
            for group in range(file.metadata.num_row_groups):
                counts.append(file.metadata.row_group(group).num_rows)
            candidates = [field.name for field in schema if is_vector(field.type)]
            found = chosen(plain(name), "column", column, candidates, schema.names)
            first = next(file.iter_batches(1, columns=[found]), None)
        if first is None:
            raise FormatError(f"{name}: has 0 rows: there are no vectors")
        dimensions = arrow_rows(first.column(found)).shape[1]
        return [
            cls(name, count, dimensions, system, group, found) for group, count in enumerate(counts) if count
        ]

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Rows from `start` to `stop`, a few at a time."""
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
        """All values of a column of the group."""
        from pyarrow.parquet import ParquetFile

        with self.system.open(self.name, "rb") as handle:
            file = ParquetFile(handle)
            chosen(plain(self.name), "column", name, [], file.schema_arrow.names)
            return file.read_row_group(self.group, columns=[name]).column(name)


@dataclass(frozen=True)
class BlockPiece(Piece):
    """A block of a dataset, in the memory of the cluster."""

    block: Any
    vectors_column: str

    def parts(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Rows from `start` to `stop`, a few at a time."""
        step = rows_at_once(self.dimensions)
        table = as_table(ray.get(self.block))
        for first in range(start, stop, step):
            some = table.slice(first, min(first + step, stop) - first)
            yield as_floats(arrow_rows(some.column(self.vectors_column)))

    def column(self, name: str) -> Any:
        """All values of a column."""
        table = as_table(ray.get(self.block))
        chosen(plain(self.name), "column", name, [], table.column_names)
        return table.column(name)


class Source:
    """All pieces one after the other, numbered as one array would be."""

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
        """Rows from `start` to `stop`, as they lie in files."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        for piece, end in zip(self.pieces[first:], self.ends[first:], strict=True):
            begin = int(end) - piece.rows
            if begin >= stop:
                return
            yield from piece.parts(max(start - begin, 0), min(stop - begin, piece.rows))

    def batches(self, start: int, stop: int, step: int) -> Iterator[FloatArray]:
        """The same, so many at a time: a build in one process would have these batches."""
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
        """(n, d) rows of ascending numbers that lie from `start` to `stop`."""
        found, done = [], start
        for part in self.parts(start, stop):
            low, high = np.searchsorted(numbers, [done, done + len(part)])
            if high > low:
                found.append(np.array(part[numbers[low:high] - done]))
            done += len(part)
        return joined(found)


def plain(address: str) -> Path:
    """An address where only its name is wanted, for a message; a Path of it would lose slashes."""
    return cast(Path, address)


def joined(parts: list[FloatArray]) -> FloatArray:
    """One array of several, which must be of one precision: a build in one process has one array."""
    kinds = {part.dtype for part in parts}
    if len(kinds) > 1:
        raise ValueError(
            f"vectors are of {' and '.join(sorted(map(str, kinds)))}; all must be of one precision"
        )
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def source_of(vectors: Any, column: str | None) -> Source:
    """Paths, globs or addresses, or a dataset of Ray Data."""
    if hasattr(vectors, "materialize") and hasattr(vectors, "iter_batches"):
        return Source(blocks_of(vectors, column))
    given = [vectors] if isinstance(vectors, (str, os.PathLike)) else list(vectors)
    pieces: list[Piece] = []
    for one in given:
        if not isinstance(one, (str, os.PathLike)):
            raise ValueError(f"vectors are {type(one).__name__}; expected paths, addresses or a Ray dataset")
        pieces += pieces_at(os.fspath(one), column)
    return Source(pieces)


def pieces_at(place: str, column: str | None) -> list[Piece]:
    """What a path or an address leads to; that of a glob in the order of names."""
    if not any(mark in place for mark in ADDRESS):
        found = sorted(glob.glob(place)) if glob.has_magic(place) else [place]
        if not found:
            raise FileNotFoundError(f"{place}: matches no file")
        return [LocalPiece.of(os.path.abspath(path), column) for path in found]
    import fsspec

    system, path = fsspec.core.url_to_fs(place)
    found = sorted(system.glob(path)) if glob.has_magic(path) else [path]
    if not found:
        raise FileNotFoundError(f"{place}: matches no file")
    pieces: list[Piece] = []
    for name in found:
        format = format_of(name)
        if format == "npy" and column is None:
            pieces.append(NpyPiece.of(name, system))
        elif format == "parquet":
            pieces += ParquetPiece.of(name, system, column)
        else:
            raise ValueError(f"{name}: only .npy (without columns) and .parquet files are read from afar")
    return pieces


def blocks_of(dataset: Any, column: str | None) -> list[Piece]:
    """The blocks of a dataset in its order, computed once."""
    context = ray.data.DataContext.get_current()
    before = context.execution_options.preserve_order
    context.execution_options.preserve_order = True
    try:
        blocks = dataset.materialize().get_internal_block_refs()
    finally:
        context.execution_options.preserve_order = before
    looked = ray.get([look_task.remote(block, column) for block in blocks])
    return [
        BlockPiece(f"block {number}", rows, dimensions, block, found)
        for number, (block, (rows, dimensions, found)) in enumerate(zip(blocks, looked, strict=True))
        if rows
    ]


def look(block: Any, column: str | None) -> tuple[int, int, str]:
    """Rows, dimensions and the column of vectors."""
    from pcpq.io.formats.columns import is_vector

    table = as_table(block)
    if not len(table):
        return 0, 0, ""
    candidates = [field.name for field in table.schema if is_vector(field.type)]
    found = chosen(plain("the dataset"), "column", column, candidates, table.column_names)
    return len(table), arrow_rows(table.slice(0, 1).column(found)).shape[1], found


def as_table(block: Any) -> Any:
    """A block as Arrow has it; Ray has some as data frames."""
    import pyarrow

    return block if isinstance(block, pyarrow.Table) else pyarrow.Table.from_pandas(block, preserve_index=False)


def arrow_rows(column: Any) -> FloatArray:
    """(n, d) of an Arrow column of lists or tensors."""
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
        if hasattr(column, "chunks"):  # as some versions leave it
            column = column.chunk(0)
    if hasattr(column, "to_numpy_ndarray"):
        return np.asarray(column.to_numpy_ndarray())
    rows: FloatArray = as_rows(getattr(column, "storage", column))
    return rows


def values_of(column: Any, name: str) -> Any:
    """A column as ids: int64 numbers, or a list of words."""
    import pyarrow

    from pcpq.io.formats.columns import check_ids

    check_ids(plain(name), name, column.type)
    if column.null_count:
        raise ValueError(f"column {name!r} has {column.null_count} nulls; every vector must have an id")
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_integer(column.type):
        return np.asarray(column.cast(pyarrow.int64()))
    return column.to_pylist()


look_task = ray.remote(look)
