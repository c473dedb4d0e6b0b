"""Search results as a plain table, CSV, JSON lines or parquet. Missing results are left out."""

from __future__ import annotations

import codecs
import csv
import json
import os
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.util.durable_files import replaced

HEADER = ("query", "rank", "id", "score")


class Results:
    """Ids and scores, (n, k), and the names of the n queries."""

    def __init__(self, ids: Any, scores: Any, queries: Sequence[Any] | None) -> None:
        self.ids, self.scores = np.asarray(ids), np.asarray(scores)
        if self.ids.ndim != 2 or self.ids.shape != self.scores.shape:
            raise ValueError(
                f"ids have shape {self.ids.shape}, scores {self.scores.shape}; expected (n, k) of both"
            )
        self.queries = range(len(self.ids)) if queries is None else queries
        if len(self.queries) != len(self.ids):
            raise ValueError(f"there are {len(self.queries)} names of queries for {len(self.ids)} queries")

    def by_query(self) -> Iterator[tuple[Any, list[Any], NDArray[Any]]]:
        """Yield each query with its ids and scores, best first."""
        for query, ids, scores in zip(self.queries, self.ids, self.scores, strict=True):
            present = np.array([is_result(found) for found in ids.tolist()], bool)
            yield as_plain(query), ids[present].tolist(), scores[present]

    def rows(self) -> Iterator[tuple[Any, int, Any, Any]]:
        """Yield (query, rank, id, score) of each result; the best result of a query has rank 1."""
        for query, ids, scores in self.by_query():
            for rank, (found, score) in enumerate(zip(ids, scores, strict=True), 1):
                yield query, rank, found, score


def write_results(
    out: Any, ids: Any, scores: Any, format: str, *, queries: Sequence[Any] | None = None
) -> None:
    """Write the results of a search. Missing results are left out.

    Parameters
    ----------
    out : an open binary file, or a path; a file at the path is replaced atomically
    ids : (n, k) int64, where missing results are -1; or strings, where missing results are None
    scores : (n, k) floats
    format : one of RESULT_FORMATS
    queries : names of the n queries; None: 0 to n - 1
    """
    if format not in WRITERS:
        raise ValueError(f"format is {format!r}; expected one of {', '.join(WRITERS)}")
    results = Results(ids, scores, queries)
    if hasattr(out, "write"):
        WRITERS[format](out, results)
        return
    with replaced(Path(os.fspath(out))) as file:
        WRITERS[format](file, results)


def write_table(out: Any, results: Results) -> None:
    """Write results as aligned columns; numbers are aligned right."""

    def cells() -> Iterator[list[str]]:
        yield list(HEADER)
        for query, rank, found, score in results.rows():
            yield [printable(query), str(rank), printable(found), f"{score:.6g}"]

    widths = [0] * len(HEADER)
    for row in cells():
        widths = [max(widest, width(cell)) for widest, cell in zip(widths, row, strict=True)]
    first = next(results.rows(), (0, 0, 0, 0))
    to_left = [isinstance(cell, str) for cell in first]
    for row in cells():
        padded = []
        for cell, widest, left in zip(row, widths, to_left, strict=True):
            blanks = " " * (widest - width(cell))
            padded.append(cell + blanks if left else blanks + cell)
        out.write(encoded("  ".join(padded).rstrip() + "\n"))


def write_csv(out: Any, results: Results) -> None:
    """Write results as CSV with a header, one result per line."""
    text = codecs.getwriter("utf-8")(out, "backslashreplace")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for query, rank, found, score in results.rows():
        writer.writerow((query, rank, found, str(score)))


def write_jsonl(out: Any, results: Results) -> None:
    """Write results as JSON lines, one query per line."""
    for query, ids, scores in results.by_query():
        # The shortest decimal number that identifies the float32.
        numbers = [float(str(score)) for score in scores]
        line = {"query": query, "ids": ids, "scores": numbers}
        out.write(encoded(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"))


def write_parquet(out: Any, results: Results) -> None:
    """Write results as a parquet file, one result per row."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    columns = list(zip(*results.rows(), strict=True)) or [()] * len(HEADER)
    kinds = (column_type(results.queries), pyarrow.int32(), column_type(results.ids), pyarrow.float32())
    table = pyarrow.table(
        {name: pyarrow.array(column, kind) for name, column, kind in zip(HEADER, columns, kinds, strict=True)}
    )
    with ParquetWriter(out, table.schema) as writer:
        writer.write_table(table)


def column_type(names: Any) -> Any:
    """Return the Arrow type of a column of names: integers or strings."""
    import pyarrow

    numbers = np.asarray(names).dtype.kind in "iu"  # strings have dtype object or a NumPy string dtype
    return pyarrow.int64() if numbers else pyarrow.string()


def is_result(found: Any) -> bool:
    """Return whether an id is a result, not the mark of a missing one."""
    return found is not None and (isinstance(found, str) or found >= 0)


def as_plain(name: Any) -> Any:
    """Return a NumPy scalar as a Python object, and other values unchanged."""
    return name.item() if isinstance(name, np.generic) else name


def encoded(text: str) -> bytes:
    """Return text as UTF-8; a lone surrogate is written as its escape, which means the same in JSON."""
    return text.encode("utf-8", "backslashreplace")


def printable(name: Any) -> str:
    """Return a name as text without control characters, which could move the cursor of a terminal."""
    text = str(name)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


WRITERS: dict[str, Callable[[Any, Results], None]] = {
    "table": write_table,
    "csv": write_csv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
}
RESULT_FORMATS = tuple(WRITERS)
