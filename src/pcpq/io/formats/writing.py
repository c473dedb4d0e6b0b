"""Writing of vector files, in batches; files are written atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from pcpq.io.arrays import Float32Array, as_vectors
from pcpq.io.formats.reading import FORMATS, format_of
from pcpq.io.formats.text import is_word
from pcpq.io.formats.vector_file import as_float32, rows_at_once
from pcpq.io.ids import as_ids, as_string_ids, kind_of
from pcpq.io.streams import as_rows
from pcpq.util.batches import slices
from pcpq.util.durable_files import replaced

# Vectors, and their ids or None.
Piece = tuple[Float32Array, Any]
# Bytes of the header, which is rewritten when the number of rows is known.
NPY_HEADER = 128


def write_vectors(
    path: str | os.PathLike[str], batches: Any, ids: Any = None, *, format: str | None = None
) -> int:
    """Write vectors as float32 and return their number. An existing file is replaced atomically.

    Parameters
    ----------
    path : the file to write
    batches : (n, d) floats, or an iterable of (n_i, d) batches, which is read once
    ids : (n,) int or str, for parquet, JSONL and text files; a text file without ids contains row numbers
    format : one of WRITTEN_FORMATS; None: by the suffix of the name
    """
    path, found = Path(path), written_format(path, format)
    if ids is not None:
        if found not in WITH_IDS:
            raise ValueError(f"{path}: {found} has no place for ids; {', '.join(WITH_IDS)} have")
        ids = as_string_ids(ids) if kind_of(ids) == "str" else as_ids(ids, len(ids))
    pieces = pieces_of(batches, ids)
    first = next(pieces)
    with replaced(path) as file:
        return WRITERS[found](file, chain([first], pieces), first[0].shape[1])


def written_format(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Return the format to write a file in, or raise a ValueError that names those that can be written."""
    name = os.fspath(path)
    known = any(name.lower().endswith(suffixes) for suffixes in FORMATS.values())
    if format is None and not known:
        suffixes = ", ".join(FORMATS[one][0] for one in WRITERS)
        hint = "use one of them, or say format= (command line: --format)"
        raise ValueError(f"{name}: unknown format: files end in {suffixes}; {hint}")
    found = format_of(path, format)
    if found not in WRITERS or name.endswith(".gz"):
        raise ValueError(f"{name}: cannot be written as {found}; expected {', '.join(WRITERS)}, uncompressed")
    return found


def pieces_of(batches: Any, ids: Any) -> Iterator[Piece]:
    """Yield float32 vectors with their ids in small batches, and check that dimensions and numbers match."""
    count, dimensions = 0, None
    for batch in [batches] if hasattr(batches, "__array__") else batches:
        rows = as_vectors(as_rows(batch))
        dimensions = dimensions or rows.shape[1]
        if rows.shape[1] != dimensions:
            raise ValueError(
                f"vectors from row {count} on have {rows.shape[1]} dimensions, those before {dimensions}"
            )
        for part in slices(len(rows), rows_at_once(dimensions)):
            piece = as_float32(rows[part])
            start, count = count, count + len(piece)
            if ids is not None and len(ids) < count:
                raise ValueError(f"there are {len(ids)} ids for at least {count} vectors")
            yield piece, None if ids is None else ids[start:count]
    if count == 0:
        raise ValueError("there are no vectors to write")
    if ids is not None and len(ids) != count:
        raise ValueError(f"there are {len(ids)} ids for {count} vectors")


def write_npy(file: IO[bytes], pieces: Iterator[Piece], dimensions: int) -> int:
    """Write an array in the format of np.save."""
    file.write(bytes(NPY_HEADER))
    count = write_rows(file, pieces)
    fields = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {dimensions}), }}"
    file.seek(0)
    start = b"\x93NUMPY\x01\x00" + (NPY_HEADER - 10).to_bytes(2, "little")
    file.write(start + fields.ljust(NPY_HEADER - 11).encode() + b"\n")
    return count


def write_fbin(file: IO[bytes], pieces: Iterator[Piece], dimensions: int) -> int:
    """Write the numbers of rows and dimensions, then the rows."""
    file.write(bytes(8))
    count = write_rows(file, pieces)
    if count >= 2**32:
        raise ValueError(f"there are {count} vectors; fbin counts them in 32 bits")
    file.seek(0)
    file.write(np.array([count, dimensions], "<u4").tobytes())
    return count


def write_rows(file: IO[bytes], pieces: Iterator[Piece]) -> int:
    """Write the values of all rows, and return the number of rows."""
    count = 0
    for rows, _ in pieces:
        file.write(rows.astype("<f4", copy=False).data)
        count += len(rows)
    return count


def write_fvecs(file: IO[bytes], pieces: Iterator[Piece], dimensions: int) -> int:
    """Write each row after its number of dimensions."""
    count = 0
    for rows, _ in pieces:
        with_length = np.empty((len(rows), 1 + dimensions), "<f4")
        with_length[:, 0].view("<i4")[:] = dimensions
        with_length[:, 1:] = rows
        file.write(with_length.data)
        count += len(rows)
    return count


def write_parquet(file: IO[bytes], pieces: Iterator[Piece], dimensions: int) -> int:
    """Write a table with the columns `id`, if there are ids, and `vector`."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    def table(piece: Piece) -> pyarrow.Table:
        rows, ids = piece
        vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), dimensions)
        return pyarrow.table({"vector": vectors} if ids is None else {"id": ids, "vector": vectors})

    first, count = table(next(pieces)), 0
    with ParquetWriter(file, first.schema) as writer:
        for part in chain([first], map(table, pieces)):
            writer.write_table(part)
            count += len(part)
    return count


def write_jsonl(file: IO[bytes], pieces: Iterator[Piece], dimensions: int) -> int:
    """Write objects with the fields `id`, if there are ids, and `vector`."""
    count = 0
    for rows, ids in pieces:
        if not np.isfinite(rows).all():
            row = count + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ValueError(f"vectors[{row}] is not finite; JSON has no such numbers")
        for row, values in enumerate(rows):
            name = "" if ids is None else f'"id": {json.dumps(as_json_id(ids[row]))}, '
            file.write(f'{{{name}"vector": [{", ".join(map(str, values))}]}}\n'.encode())
        count += len(rows)
    return count


def write_text(file: IO[bytes], pieces: Iterator[Piece], dimensions: int) -> int:
    """Write a word and its numbers per line, in the format of GloVe."""
    count = 0
    for rows, ids in pieces:
        for row, values in enumerate(rows):
            word = str(count + row if ids is None else ids[row]).encode()
            if not is_word(word) or word != word.strip() or b"\n" in word:
                raise ValueError(
                    f"id {ids[row]!r} cannot be distinguished from the numbers after it; write JSONL"
                )
            file.write(word + f" {' '.join(map(str, values))}\n".encode())
        count += len(rows)
    return count


def as_json_id(value: Any) -> Any:
    """Return an id as a type that JSON supports."""
    return value if isinstance(value, str) else int(value)


WRITERS: dict[str, Callable[[IO[bytes], Iterator[Piece], int], int]] = {
    "npy": write_npy,
    "fvecs": write_fvecs,
    "fbin": write_fbin,
    "parquet": write_parquet,
    "jsonl": write_jsonl,
    "text": write_text,
}
WRITTEN_FORMATS = tuple(WRITERS)
WITH_IDS = ("parquet", "jsonl", "text")
