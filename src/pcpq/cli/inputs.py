"""Vectors, queries, ids and attributes from the files that are named by options."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pcpq.index import Index, state_of
from pcpq.io.formats import VectorFile, format_of, read_vectors
from pcpq.io.formats.files import parsing

STDIN = "-"
# Suffixes of vector files with ids; any other file except .npy is read as text, one id per line.
WITH_IDS = (".parquet", ".arrow", ".feather", ".ipc", ".jsonl", ".ndjson", ".npz", ".vec", ".glove")
ROWS_AT_ONCE = 1 << 16


def vectors_in(options: argparse.Namespace, path: str) -> VectorFile:
    """Open a file of vectors as specified by the options."""
    return read_vectors(
        path,
        format=options.input_format,
        column=options.column,
        id_column=options.id_column,
        part=options.part,
    )


@contextmanager
def queries_in(options: argparse.Namespace, path: str) -> Iterator[VectorFile]:
    """Open a file of queries, or standard input, which is JSONL unless --input-format is given.

    Standard input is copied to a temporary file, because vector files are read more than once.
    """
    if path != STDIN:
        settings = argparse.Namespace(**vars(options))
        settings.part = settings.part or usual_part(path, settings.input_format)
        yield vectors_in(settings, path)
        return
    with tempfile.TemporaryDirectory(prefix="pcpq-") as folder:
        settings = argparse.Namespace(**vars(options))
        settings.input_format = settings.input_format or "jsonl"
        settings.part = settings.part or usual_part(path, settings.input_format)
        copied = Path(folder) / "stdin"
        with copied.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield vectors_in(settings, str(copied))
        except ValueError as error:
            raise ValueError(str(error).replace(str(copied), "stdin")) from error


def usual_part(path: str, format: str | None) -> str | None:
    """Return the dataset that contains queries in HDF5 files of ann-benchmarks; None for other formats."""
    return "test" if format_of(path, format) == "hdf5" else None


def plain_queries(path: str) -> Any:
    """Return the (n, d) queries of a file that has no format options."""
    return read_vectors(path, part=usual_part(path, None)).array()


def attributes_in(file: VectorFile, names: str | None) -> dict[str, Any] | None:
    """Return the columns of attributes by name; None if no names are given."""
    if names is None:
        return None
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    with parsing(file.path):
        columns = columns_of(file)
        missing = [name for name in wanted if name not in columns]
        if not missing and file.format == "jsonl":
            return fields_in(file, wanted)
        if not missing:
            return {name: column_in(file, name) for name in wanted}
    raise ValueError(f"{file.path}: has no column {missing[0]!r}; it has {', '.join(columns) or 'none'}")


def columns_of(file: VectorFile) -> list[str]:
    """Return the names of the columns of a file; of JSONL, the fields of the first line."""
    from pcpq.io.formats.columns import look
    from pcpq.io.formats.jsonl import objects

    if file.format == "jsonl":
        return list(next(objects(file.path))[1])
    if file.format in ("parquet", "arrow"):
        return list(look(file.path, file.format)[0].names)
    return []


def column_in(file: VectorFile, name: str) -> Any:
    """Return one column of a parquet or Arrow file."""
    import pyarrow

    from pcpq.io.formats.columns import parts_of

    return pyarrow.chunked_array(list(parts_of(file.path, file.format, name, ROWS_AT_ONCE)))


def fields_in(file: VectorFile, names: list[str]) -> dict[str, Any]:
    """Return fields of all lines of a JSONL file; None where a line lacks a field."""
    from pcpq.io.formats.jsonl import objects

    columns: dict[str, Any] = {name: [] for name in names}
    for _, found in objects(file.path):
        for name, column in columns.items():
            column.append(found.get(name))
    return columns


def ids_in(options: argparse.Namespace, path: str) -> Any:
    """Return the ids in a file: ids of a vector file, a .npy array, or a text file with one id per line."""
    if path == STDIN:
        return sys.stdin.read().splitlines()
    if path.lower().endswith(".npy"):
        with parsing(Path(path)):
            found = np.load(path, allow_pickle=False)
        if found.ndim != 1 or found.dtype.kind not in "iuU":
            raise ValueError(f"{path}: is an array of {found.dtype}, shape {found.shape}; expected ids, (n,)")
        return found
    if options.id_column is not None or path.lower().removesuffix(".gz").endswith(WITH_IDS):
        ids = read_vectors(path, id_column=options.id_column).ids()
        if ids is None:
            raise ValueError(f"{path}: has no ids; give --id-column NAME")
        return ids
    return Path(path).read_text(encoding="utf-8").splitlines()


def as_ids_of(index: Index, given: Any) -> Any:
    """Return ids, given as text or numbers, as the type of ids that the index has."""
    if state_of(index).kind == "str":
        return [str(value) for value in given]
    try:
        return np.array([int(value) for value in given], np.int64)
    except (ValueError, OverflowError) as error:
        wrong = next(value for value in given if not str(value).lstrip("-").isdigit())
        raise ValueError(f"ids of the index are whole numbers, not {wrong!r}") from error
