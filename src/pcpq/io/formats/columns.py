"""Parquet and Arrow files: a column of vectors, and optionally a column of ids, by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pcpq.errors import FormatError
from pcpq.io.arrays import FloatArray
from pcpq.io.formats.files import parsing, plain_size
from pcpq.io.formats.vector_file import (
    Batches,
    VectorFile,
    Wanted,
    as_floats,
    check_dimensions,
    chosen,
    chosen_ids,
    rows_at_once,
)
from pcpq.io.streams import as_rows

if TYPE_CHECKING:
    import pyarrow

# First bytes of an Arrow file; a stream starts differently.
ARROW_FILE = b"ARROW1"


def read_columns(path: Path, format: str, wanted: Wanted) -> VectorFile:
    """Read a table file; only the columns of vectors and ids are read."""
    plain_size(path)
    with parsing(path):
        schema, rows = look(path, format)
        names = schema.names
        candidates = [field.name for field in schema if is_vector(field.type)]
    column = chosen(path, "column", wanted.column, candidates, names)
    id_column = chosen_ids(path, "column", wanted.id_column, names)
    found = schema.field(column).type
    if not is_vector(found):
        raise ValueError(f"{path}: column {column!r} is of type {found}; expected lists of numbers")
    if wanted.id_column is not None:  # a default column is checked when ids are read
        check_ids(path, wanted.id_column, schema.field(wanted.id_column).type)
    with parsing(path):
        first = next(vectors_of(path, format, column, 1), None)
    if first is None or rows == 0:
        raise FormatError(f"{path}: has 0 rows: there are no vectors")
    check_dimensions(path, first.shape[1])
    step = rows_at_once(first.shape[1])
    vectors = Batches(path, lambda: vectors_of(path, format, column, step), first.shape[1], rows)
    read_ids = None if id_column is None else lambda: ids_of(path, format, id_column)
    return VectorFile(path, format, vectors, rows, first.shape[1], read_ids=read_ids)


def look(path: Path, format: str) -> tuple[pyarrow.Schema, int | None]:
    """Return the schema of a file, and its number of rows if the file states it."""
    import pyarrow

    if format == "parquet":
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path, memory_map=True) as file:
            return file.schema_arrow, int(file.metadata.num_rows)
    with pyarrow.memory_map(str(path)) as source:
        return open_arrow(source).schema, None


def open_arrow(source: Any) -> Any:
    """Return a reader of an Arrow file or stream.

    All columns are mapped without a copy; a selection of columns would be copied.
    """
    import pyarrow

    is_file = source.read(len(ARROW_FILE)) == ARROW_FILE
    source.seek(0)
    return (pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(source)


def parts_of(path: Path, format: str, column: str, step: int) -> Iterator[pyarrow.Array]:
    """Yield a column in parts of at most `step` rows."""
    import pyarrow

    if format == "parquet":
        from pyarrow.parquet import ParquetFile

        # Without pre-buffering, pages are read one by one, and large row groups need no memory.
        with ParquetFile(path, memory_map=True, pre_buffer=False) as file:
            for batch in file.iter_batches(step, columns=[column]):
                yield batch.column(column)
        return
    with pyarrow.memory_map(str(path)) as source:
        reader = open_arrow(source)
        numbered = hasattr(reader, "num_record_batches")
        batches = map(reader.get_batch, range(reader.num_record_batches)) if numbered else iter(reader)
        for batch in batches:
            part = batch.column(column)
            # The lengths and offsets in the file are not checked when it is opened.
            part.validate(full=True)
            for start in range(0, len(part), step):
                yield part.slice(start, step)


def vectors_of(path: Path, format: str, column: str, step: int) -> Iterator[FloatArray]:
    """Yield a column as (n_i, d) vectors, at most `step` rows at a time."""
    count = 0
    for part in parts_of(path, format, column, step):
        if len(part) == 0:
            continue
        try:
            rows = as_rows(getattr(part, "storage", part))  # an extension array, such as tensors
        except ValueError as error:
            raise FormatError(f"{path}: column {column!r}, rows from {count} on: {error}") from error
        yield as_floats(rows)
        count += len(part)


def ids_of(path: Path, format: str, column: str) -> Any:
    """Return a column as ids: (n,) int64 or a list of strings."""
    import pyarrow

    ids = pyarrow.chunked_array(list(parts_of(path, format, column, 1 << 16)))
    check_ids(path, column, ids.type)
    if ids.null_count:
        raise FormatError(f"{path}: column {column!r} has {ids.null_count} nulls; every vector must have an id")
    if pyarrow.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    if pyarrow.types.is_integer(ids.type):
        return np.asarray(ids.cast(pyarrow.int64()))
    return ids.to_pylist()


def is_vector(kind: Any) -> bool:
    """Return whether a type is a list of numbers, of variable or fixed length, or a tensor stored as such."""
    from pyarrow import types

    kind = getattr(kind, "storage_type", kind)
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    return bool(types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def check_ids(path: Path, column: str, kind: Any) -> None:
    """Raise a FormatError unless a type is integers or strings, possibly dictionary-encoded."""
    from pyarrow import types

    found = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_integer(found) or types.is_string(found) or types.is_large_string(found)):
        raise FormatError(f"{path}: column {column!r} is of type {kind}; ids are integers or strings")
