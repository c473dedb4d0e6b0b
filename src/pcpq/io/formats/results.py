"""Search results as a plain table, CSV, JSON lines or parquet. Missing results are left out."""

from __future__ import annotations

import codecs
import csv
import json
import math
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
    """Ids and scores, (n, k), the names of the n queries, and attributes of the results."""

    def __init__(self, ids: Any, scores: Any, queries: Sequence[Any] | None, attributes: Any = None) -> None:
        self.ids, self.scores = np.asarray(ids), np.asarray(scores)
        if self.ids.ndim != 2 or self.ids.shape != self.scores.shape:
            raise ValueError(
                f"ids have shape {self.ids.shape}, scores {self.scores.shape}; expected (n, k) of both"
            )
        self.queries = range(len(self.ids)) if queries is None else queries
        if len(self.queries) != len(self.ids):
            raise ValueError(f"there are {len(self.queries)} names of queries for {len(self.ids)} queries")
        self.attributes = attributes
        if attributes is not None and len(attributes) != self.ids.size:
            raise ValueError(f"attributes have {len(attributes)} rows for {self.ids.size} results")

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

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns."""
        return HEADER if self.attributes is None else (*HEADER, *map(column_name, self.attributes.column_names))

    def present_attributes(self) -> Any:
        """Return the attributes of results that are not missing, in the order of `rows`."""
        return self.attributes.filter([is_result(found) for found in self.ids.ravel().tolist()])

    def values(self) -> Iterator[list[Any]]:
        """Yield the attributes of each result, in the order of `rows`; empty without attributes."""
        if self.attributes is None:
            while True:
                yield []
        columns = [json_values(column) for column in self.present_attributes().columns]
        yield from map(list, zip(*columns, strict=True))


def column_name(name: str) -> str:
    """Return the name of the column of an attribute, which differs from those of results."""
    return f"attributes.{name}" if name in HEADER else name


def json_values(column: Any) -> list[Any]:
    """Return the values of an Arrow column as JSON can hold them: times and other types as strings."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_timestamp(kind) or pyarrow.types.is_time(kind) or pyarrow.types.is_date(kind):
        column = column.cast(pyarrow.string())  # Python's times have no nanoseconds
    return [json_value(value) for value in column.to_pylist()]


def json_value(value: Any) -> Any:
    """Return a value of an attribute as JSON can hold it."""
    if isinstance(value, dict):
        return {str(name): json_value(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def cell(value: Any) -> str:
    """Return a value of an attribute as text: nested values as JSON, null as nothing."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def write_results(
    out: Any,
    ids: Any,
    scores: Any,
    format: str,
    *,
    queries: Sequence[Any] | None = None,
    attributes: Any = None,
) -> None:
    """Write the results of a search. Missing results are left out.

    Parameters
    ----------
    out : an open binary file, or a path; a file at the path is replaced atomically
    ids : (n, k) int64, where missing results are -1; or strings, where missing results are None
    scores : (n, k) floats
    format : one of RESULT_FORMATS
    queries : names of the n queries; None: 0 to n - 1
    attributes : an Arrow table with n k rows, the attributes of a Result; None: no columns of attributes
    """
    if format not in WRITERS:
        raise ValueError(f"format is {format!r}; expected one of {', '.join(WRITERS)}")
    results = Results(ids, scores, queries, attributes)
    if hasattr(out, "write"):
        WRITERS[format](out, results)
        return
    with replaced(Path(os.fspath(out))) as file:
        WRITERS[format](file, results)


def write_table(out: Any, results: Results) -> None:
    """Write results as aligned columns; numbers are aligned right."""

    def cells() -> Iterator[list[str]]:
        yield list(map(printable, results.header))
        for (query, rank, found, score), values in zip(results.rows(), results.values(), strict=False):
            own = [printable(cell(value)) for value in values]
            yield [printable(query), str(rank), printable(found), f"{score:.6g}", *own]

    widths = [0] * len(results.header)
    for row in cells():
        widths = [max(widest, width(text)) for widest, text in zip(widths, row, strict=True)]
    first = next(results.rows(), (0, 0, 0, 0))
    to_left = [isinstance(value, str) for value in first]
    if results.attributes is not None:
        to_left += [not is_number(kind) for kind in results.attributes.schema.types]
    for row in cells():
        padded = []
        for text, widest, left in zip(row, widths, to_left, strict=True):
            blanks = " " * (widest - width(text))
            padded.append(text + blanks if left else blanks + text)
        out.write(encoded("  ".join(padded).rstrip() + "\n"))


def write_csv(out: Any, results: Results) -> None:
    """Write results as CSV with a header, one result per line."""
    text = codecs.getwriter("utf-8")(out, "backslashreplace")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(results.header)
    for (query, rank, found, score), values in zip(results.rows(), results.values(), strict=False):
        writer.writerow((query, rank, found, str(score), *map(cell, values)))


def write_jsonl(out: Any, results: Results) -> None:
    """Write results as JSON lines, one query per line."""
    values = results.values()
    for query, ids, scores in results.by_query():
        # The shortest decimal number that identifies the float32.
        numbers = [float(str(score)) for score in scores]
        line = {"query": query, "ids": ids, "scores": numbers}
        if results.attributes is not None:
            names = results.attributes.column_names
            line["attributes"] = [dict(zip(names, next(values), strict=True)) for _ in ids]
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
    if results.attributes is not None:
        for name, column in zip(
            results.header[len(HEADER) :], results.present_attributes().columns, strict=True
        ):
            table = table.append_column(name, column)
    with ParquetWriter(out, table.schema) as writer:
        writer.write_table(table)


def column_type(names: Any) -> Any:
    """Return the Arrow type of a column of names: integers or strings."""
    import pyarrow

    numbers = np.asarray(names).dtype.kind in "iu"  # strings have dtype object or a NumPy string dtype
    return pyarrow.int64() if numbers else pyarrow.string()


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is one of numbers, which are aligned right."""
    import pyarrow

    return bool(
        pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_decimal(kind)
    )


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
