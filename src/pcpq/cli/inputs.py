"""Files as options name them: vectors, queries, ids, attributes."""

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
# Formats whose files may be all about ids; of the others, what is no array is a list of them.
WITH_IDS = (".parquet", ".arrow", ".feather", ".ipc", ".jsonl", ".ndjson", ".npz", ".vec", ".glove")
ROWS_AT_ONCE = 1 << 16


def vectors_in(options: argparse.Namespace, path: str) -> VectorFile:
    """A file of vectors, read as options say."""
    return read_vectors(
        path,
        format=options.input_format,
        column=options.column,
        id_column=options.id_column,
        part=options.part,
    )


@contextmanager
def queries_in(options: argparse.Namespace, path: str) -> Iterator[VectorFile]:
    """A file of queries, or standard input: JSONL unless options say otherwise. Others are read twice."""
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
    """Where files of ann-benchmarks have their queries."""
    return "test" if format_of(path, format) == "hdf5" else None


def plain_queries(path: str) -> Any:
    """(n, d) queries of a file that no other options are about."""
    return read_vectors(path, part=usual_part(path, None)).array()


def attributes_in(file: VectorFile, names: str | None) -> dict[str, Any] | None:
    """Columns by name."""
    if names is None:
        return None
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    with parsing(file.path):
        there = columns_of(file)
        missing = [name for name in wanted if name not in there]
        if not missing and file.format == "jsonl":
            return fields_in(file, wanted)
        if not missing:
            return {name: column_in(file, name) for name in wanted}
    raise ValueError(f"{file.path}: has no column {missing[0]!r}; it has {', '.join(there) or 'none'}")


def columns_of(file: VectorFile) -> list[str]:
    """What columns there are; of JSONL, the fields of the first line."""
    from pcpq.io.formats.columns import look
    from pcpq.io.formats.jsonl import objects

    if file.format == "jsonl":
        return list(next(objects(file.path))[1])
    if file.format in ("parquet", "arrow"):
        return list(look(file.path, file.format)[0].names)
    return []


def column_in(file: VectorFile, name: str) -> Any:
    """One column of parquet or Arrow."""
    import pyarrow

    from pcpq.io.formats.columns import parts_of

    return pyarrow.chunked_array(list(parts_of(file.path, file.format, name, ROWS_AT_ONCE)))


def fields_in(file: VectorFile, names: list[str]) -> dict[str, Any]:
    """Fields of all lines, null where a line has none."""
    from pcpq.io.formats.jsonl import objects

    columns: dict[str, Any] = {name: [] for name in names}
    for _, found in objects(file.path):
        for name, column in columns.items():
            column.append(found.get(name))
    return columns


def ids_in(options: argparse.Namespace, path: str) -> Any:
    """Ids of a file: of its vectors, an array of numbers, or one a line."""
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
            raise ValueError(f"{path}: has no ids; say where they are: --id-column NAME")
        return ids
    return Path(path).read_text(encoding="utf-8").splitlines()


def as_ids_of(index: Index, given: Any) -> Any:
    """Ids as the index has them: what was typed is text, whatever was meant."""
    if state_of(index).kind == "str":
        return [str(one) for one in given]
    try:
        return np.array([int(one) for one in given], np.int64)
    except (ValueError, OverflowError) as error:
        wrong = next(one for one in given if not str(one).lstrip("-").isdigit())
        raise ValueError(f"ids of the index are whole numbers, not {wrong!r}") from error
