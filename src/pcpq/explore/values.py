"""Ids, scores and attributes as JSON that every browser reads.

A browser rounds integers above 2^53 and has no NaN in JSON, so ids are text and odd numbers are None.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

# Characters of an attribute that are shown; the page is for looking, not for export.
MOST_TEXT = 300
# Characters of an id. A longer one is sent as None: the page can neither show nor search it.
MOST_ID = 2000
UNREADABLE = "(cannot be shown)"


def as_json(value: Any) -> bytes:
    """Return a value as JSON in ASCII, which also holds strings that UTF-8 cannot."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def number(value: Any) -> float | None:
    """Return a number with seven digits; None for NaN and infinity."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


def id_text(some_id: Any) -> str | None:
    """Return an id as text; None if it is too long to be shown."""
    text = str(some_id)
    return text if len(text) <= MOST_ID else None


def shortened(text: str) -> str:
    """Return at most MOST_TEXT characters of a text."""
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "\N{HORIZONTAL ELLIPSIS}"


def text_of(value: Any) -> str | None:
    """Return the value of an attribute as text; None for null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else f"{value:.7g}"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return shortened("0x" + bytes(value[:MOST_TEXT]).hex())
    return shortened(str(value))


def column_texts(column: Any) -> list[str | None]:
    """Return the values of an Arrow column as texts; Arrow has dates that Python has not."""
    try:
        return [text_of(value) for value in column.to_pylist()]
    except (ValueError, OverflowError, ArithmeticError):
        return [scalar_text(scalar) for scalar in column]


def scalar_text(scalar: Any) -> str | None:
    """Return one Arrow value as text, also if Python has no such value."""
    try:
        return text_of(scalar.as_py())
    except (ValueError, OverflowError, ArithmeticError):
        return UNREADABLE


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is a type of numbers."""
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def rounded(values: Any) -> list[float]:
    """Return coordinates from 0 to 1 with four digits, which is less than a pixel."""
    found: list[float] = np.round(np.asarray(values, np.float64), 4).tolist()
    return found
