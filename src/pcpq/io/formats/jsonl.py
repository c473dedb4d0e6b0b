"""JSON lines: one object per line, with a vector in one field and optionally an id in another."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pcpq.errors import FormatError
from pcpq.io.formats.files import numbered_lines, parsing, plain_size
from pcpq.io.formats.vector_file import (
    Batches,
    VectorFile,
    Wanted,
    check_dimensions,
    chosen,
    chosen_ids,
    gathered,
)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NUMBERS = {int, float}


def read_jsonl(path: Path, format: str, wanted: Wanted) -> VectorFile:
    """Read a file of JSON objects; all lines must have the fields of vectors and ids of the first line."""
    plain_size(path)
    with parsing(path):
        _, first = next(objects(path), (0, None))
    if first is None:
        raise FormatError(f"{path}: has no lines: there are no vectors")
    candidates = [name for name, value in first.items() if is_vector(value)]
    column = chosen(path, "field", wanted.column, candidates, list(first))
    id_column = chosen_ids(path, "field", wanted.id_column, list(first))
    if not is_vector(first[column]):
        raise ValueError(f"{path}: field {column!r} is {shown(first[column])}; expected a list of numbers")
    dimensions = len(first[column])
    check_dimensions(path, dimensions)
    vectors = Batches(path, lambda: gathered(rows_of(path, column, dimensions), dimensions), dimensions, None)
    read_ids = None if id_column is None else lambda: ids_of(path, id_column)
    return VectorFile(path, format, vectors, None, dimensions, read_ids=read_ids)


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number and the object of each line."""
    for number, line in numbered_lines(path):
        try:
            found = json.loads((line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).decode())
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}, line {number}: is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise FormatError(f"{path}, line {number}: is {shown(found)}; expected an object")
        yield number, found


def rows_of(path: Path, column: str, dimensions: int) -> Iterator[array[float]]:
    """Yield the vectors, one by one."""
    for number, found in objects(path):
        value: Any = found.get(column)
        if not is_vector(value):
            raise FormatError(
                f"{path}, line {number}: field {column!r} is {shown(value)}; expected a list of numbers"
            )
        if len(value) != dimensions:
            raise FormatError(
                f"{path}, line {number}: has {len(value)} dimensions, the first vector has {dimensions}"
            )
        try:
            yield array("f", value)
        except OverflowError as error:
            raise FormatError(f"{path}, line {number}: holds a number that is too large") from error


def ids_of(path: Path, column: str) -> Any:
    """Return the ids of all lines, which must be all integers or all strings."""
    numbers = array("q")
    strings: list[str] = []
    for number, found in objects(path):
        value = found.get(column)
        if type(value) is int and -(2**63) <= value < 2**63 and not strings:
            numbers.append(value)
        elif type(value) is str and not numbers:
            strings.append(value)
        else:
            kind = "integers" if numbers else "strings" if strings else "integers or strings"
            raise FormatError(
                f"{path}, line {number}: field {column!r} is {shown(value)}; expected ids that are all {kind}"
            )
    return strings or np.frombuffer(numbers, np.int64).copy()


def is_vector(value: Any) -> bool:
    """Return whether a value is a non-empty list of numbers."""
    return type(value) is list and bool(value) and set(map(type, value)) <= NUMBERS


def shown(value: Any) -> str:
    """Return a value as text for an error message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
