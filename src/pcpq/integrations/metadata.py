"""Texts and metadata of documents as the attributes of vectors.

Metadata as a whole is a column of JSON texts: conditions look at it, and nothing is lost in it. Keys that hold
texts, numbers or truth values are columns as well, for the SQL that people write.
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

# NODE is there only if whoever puts documents has more to say of them.
TEXT, NODE = "text", "node"
# Keys that become columns: the first that come, lest there be as many columns as documents.
MOST_COLUMNS = 64
# Numbers of columns are floats; what is larger is in the JSON only.
MOST_NUMBER = 1e300


def table_of(
    ids: Sequence[str],
    texts: Sequence[str],
    metadata: Sequence[Mapping[str, Any]],
    nodes: Sequence[str] | None,
    columns: dict[str, type],
) -> Any:
    """The attributes of documents; `columns` of the index, with what they hold, become more by new keys."""
    pa = arrow()
    plain = [plain_value(one, f"the metadata of {i!r}") for i, one in zip(ids, metadata, strict=True)]
    written = {TEXT: texts, METADATA: [json.dumps(one, ensure_ascii=False) for one in plain]}
    written |= {} if nodes is None else {NODE: nodes}
    for name, words in written.items():
        for some_id, word in zip(ids, words, strict=True):
            refuse_broken(word, f"the {name} of {some_id!r}")
    made = {name: pa.array(words, pa.large_string()) for name, words in written.items()}
    kinds = column_kinds()
    for key in dict.fromkeys(key for one in plain for key in one):
        values = [one.get(key) for one in plain]
        kind = columns.get(key) or kind_of_new(key, values, columns)
        if kind is not None:
            columns[key] = kind
            made[key] = pa.array([kind(v) if kind_of(v) is kind else None for v in values], kinds[kind])
    return pa.table(made)


def columns_there(index: Index, path: Path | None) -> dict[str, type]:
    """The keys that an index has columns of, and what they hold; a ValueError if it holds no documents."""
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
    """What columns hold, and their types in Arrow."""
    pa = arrow()
    return {bool: pa.bool_(), float: pa.float64(), str: pa.large_string()}


def kind_of_new(key: str, values: Sequence[Any], columns: Mapping[str, type]) -> type | None:
    """What the column of a new key will hold, that of its first value; None: it gets no column."""
    if len(columns) >= MOST_COLUMNS or not is_name(key) or key.casefold() in map(str.casefold, columns):
        return None
    return next((kind for value in values if (kind := kind_of(value)) is not None), None)


def is_name(key: str) -> bool:
    """Whether a column can be called so; SQL does not tell capitals from small letters."""
    if key == "" or problem_of_names([key]):
        return False
    return key.casefold() not in (TEXT, METADATA, NODE)


def kind_of(value: Any) -> type | None:
    """What a column must hold to have this value in it."""
    if isinstance(value, (bool, str)):
        return bool if isinstance(value, bool) else str
    return float if isinstance(value, (int, float)) and abs(value) < MOST_NUMBER else None


def plain_value(value: Any, where: str) -> Any:
    """A value as JSON gives it back, or an error that says where it is."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value!r}, which JSON cannot hold; leave it out, or use None")
    if isinstance(value, str):
        return str.__str__(value)  # the word, not the name, of an enumeration
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}; expected a str")
        return {key: plain_value(one, f"{where} at {key!r}") for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(one, f"{where} at {place}") for place, one in enumerate(value)]
    raise TypeError(f"{where} is {value!r}; expected texts, numbers, truth values, None, lists or dicts")


def refuse_broken(text: Any, what: str) -> None:
    """An error for what is no text, or cannot be written as UTF-8."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r}; expected a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} has half a surrogate pair at character {error.start}") from error
