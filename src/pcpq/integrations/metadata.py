"""Texts and metadata of documents as attributes of vectors.

The complete metadata is a column of JSON texts, which filters read. Keys with texts, numbers or booleans are
columns as well, so that users can name them in SQL conditions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pcpq.index import Index
from pcpq.integrations.conditions import METADATA
from pcpq.segment.attributes import arrow, problem_of_names

# Names of columns. NODE exists only in a store of LlamaIndex nodes.
TEXT, NODE = "text", "node"
# Only the first keys become columns, so that metadata with many keys does not create a column for each.
MOST_COLUMNS = 64
# Columns of numbers are float64; larger numbers are stored in the JSON text only.
MOST_NUMBER = 1e300


def table_of(
    ids: Sequence[str],
    texts: Sequence[str],
    metadata: Sequence[Mapping[str, Any]],
    nodes: Sequence[str] | None,
    columns: dict[str, type],
) -> Any:
    """Return the Arrow table of attributes of documents; new keys are added to `columns`, with their types."""
    pa = arrow()
    plain = [plain_value(one, f"the metadata of {i!r}") for i, one in zip(ids, metadata, strict=True)]
    written = {TEXT: texts, METADATA: [json.dumps(one, ensure_ascii=False) for one in plain]}
    written |= {} if nodes is None else {NODE: nodes}
    for name, values in written.items():
        for some_id, value in zip(ids, values, strict=True):
            refuse_broken(value, f"the {name} of {some_id!r}")
    made = {name: pa.array(values, pa.large_string()) for name, values in written.items()}
    kinds = column_kinds()
    for key in dict.fromkeys(key for one in plain for key in one):
        values = [one.get(key) for one in plain]
        kind = columns.get(key) or kind_of_new(key, values, columns)
        if kind is not None:
            columns[key] = kind
            made[key] = pa.array([kind(v) if kind_of(v) is kind else None for v in values], kinds[kind])
    return pa.table(made)


def with_null_columns(table: Any, columns: Mapping[str, type]) -> Any:
    """Return a table with nulls in the columns that it lacks, which an upsert would otherwise keep."""
    kinds = column_kinds()
    for key, kind in columns.items():
        if key not in table.column_names:
            table = table.append_column(key, arrow().nulls(len(table), kinds[kind]))
    return table


def columns_there(index: Index, path: Path | None) -> dict[str, type]:
    """Return the keys that are columns of an index, and their types; a ValueError if it holds no documents."""
    if len(index) == 0:
        return {}
    some_id = index.search(np.ones(index.stats()["dimensions"], np.float32), 1).ids[0]
    if not isinstance(some_id, str):
        raise ValueError(f"{path} holds no documents: its ids are numbers")
    try:
        schema = index.get([some_id]).schema
    except ValueError as error:
        raise ValueError(f"{path} holds no documents: {error}") from error
    for name in (TEXT, METADATA):
        if name not in schema.names:
            raise ValueError(f"{path} holds no documents: it has no column {name!r}")
    kinds = {kind: name for name, kind in column_kinds().items()}
    return {field.name: kinds[field.type] for field in schema if field.type in kinds and is_name(field.name)}


def column_kinds() -> dict[type, Any]:
    """Return the Arrow type of columns by the Python type of their values."""
    pa = arrow()
    return {bool: pa.bool_(), float: pa.float64(), str: pa.large_string()}


def kind_of_new(key: str, values: Sequence[Any], columns: Mapping[str, type]) -> type | None:
    """Return the type of the column of a new key, the type of its first value; None if it becomes no column."""
    if len(columns) >= MOST_COLUMNS or not is_name(key) or key.casefold() in map(str.casefold, columns):
        return None
    return next((kind for value in values if (kind := kind_of(value)) is not None), None)


def is_name(key: str) -> bool:
    """Return whether a key can be the name of a column. SQL ignores case in names."""
    if key == "" or problem_of_names([key]):
        return False
    return key.casefold() not in (TEXT, METADATA, NODE)


def kind_of(value: Any) -> type | None:
    """Return the type of a column that can hold a value; None if only the JSON text can hold it."""
    if isinstance(value, (bool, str)):
        return bool if isinstance(value, bool) else str
    return float if isinstance(value, (int, float)) and abs(value) < MOST_NUMBER else None


def plain_value(value: Any, where: str) -> Any:
    """Return a value as JSON returns it, or raise an error that names the position of an invalid value."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value!r}, which JSON cannot hold; leave it out, or use None")
    if isinstance(value, str):
        return str.__str__(value)  # the value of a member of a string enumeration, not its name
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}; expected a str")
        return {key: plain_value(one, f"{where} at {key!r}") for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(one, f"{where} at {position}") for position, one in enumerate(value)]
    raise TypeError(f"{where} is {value!r}; expected texts, numbers, booleans, None, lists or dicts")


def refuse_broken(text: Any, what: str) -> None:
    """Raise an error unless a value is a text that can be encoded as UTF-8."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r}; expected a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} has half a surrogate pair at character {error.start}") from error
