"""Conditions on metadata as SQL, where metadata is a column of JSON texts: documents differ in keys and kinds.

Python decides what equals what: 1, 1.0 and True are the same, "1" is not. A condition is true or false, never
null, so that its opposite is what one expects: it holds where a key is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

# The column.
METADATA = "metadata"
WHOLE = "('BIGINT', 'UBIGINT')"
# Whole numbers that JSON functions know as such; larger ones are floats to them.
LEAST_WHOLE, MOST_WHOLE = -(1 << 63), (1 << 64) - 1
ORDERS = ("<", "<=", ">", ">=")


def literal(text: str) -> str:
    """A text in SQL, whatever it holds."""
    return " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in text.split("\0"))


def number(value: float) -> str:
    """A number in SQL, a float: that is what the exponent says."""
    try:
        text = repr(float(value))
    except OverflowError:
        text = "inf" if value > 0 else "-inf"
    return f"CAST('{text}' AS DOUBLE)" if "inf" in text else text if "e" in text else f"{text}e0"


class Field:
    """What a key of the metadata holds, in SQL."""

    def __init__(self, key: str) -> None:
        if not isinstance(key, str):
            raise TypeError(f"a key of metadata is {key!r}; expected a str")
        path = literal("/" + key.replace("~", "~0").replace("/", "~1"))
        self.key = key
        self.kind = f"json_type({METADATA}, {path})"
        self.text = f"json_extract_string({METADATA}, {path})"
        self.items = f"TRY_CAST(json_extract({METADATA}, {path}) AS JSON[])"
        self.whole = f"TRY_CAST({self.text} AS HUGEINT)"
        self.float = f"TRY_CAST({self.text} AS DOUBLE)"
        self.truth = f"CAST({self.text} = 'true' AS INTEGER)"

    def check(self, value: Any, kinds: tuple[type, ...], expected: str) -> None:
        """A TypeError for a value that cannot be compared, a ValueError for a number that is none."""
        if not isinstance(value, kinds):
            raise TypeError(f"{self.key!r} is compared with {value!r}; expected {expected}")
        if isinstance(value, float) and math.isnan(value):
            raise ValueError(f"{self.key!r} is compared with {value!r}; nothing equals it")


def settled(condition: str) -> str:
    """False instead of null."""
    return f"coalesce({condition}, false)"


def both(conditions: Iterable[str]) -> str:
    """All of them hold."""
    return joined(list(conditions), "AND", "true")


def either(conditions: Iterable[str]) -> str:
    """Any of them holds."""
    return joined(list(conditions), "OR", "false")


def joined(conditions: list[str], word: str, nothing: str) -> str:
    """As a tree that is as deep as it must be: parsers give up on deep ones."""
    if len(conditions) <= 1:
        return conditions[0] if conditions else nothing
    middle = len(conditions) // 2
    left, right = (joined(half, word, nothing) for half in (conditions[:middle], conditions[middle:]))
    return f"({left} {word} {right})"


def negated(condition: str) -> str:
    """It does not hold."""
    return f"(NOT {condition})"


def missing(key: str) -> str:
    """There is no such key, or it is null."""
    return f"coalesce({Field(key).kind} = 'NULL', true)"


def empty(key: str) -> str:
    """Missing, or a text or a list with nothing in it."""
    field = Field(key)
    nothing = f"({field.kind} = 'VARCHAR' AND {field.text} = '') OR len({field.items}) = 0"
    return f"({missing(key)} OR {settled(nothing)})"


def among(key: str, values: Iterable[Any]) -> str:
    """It equals one of some values: texts, numbers, truth values, lists of those, or None for a missing key."""
    field, values = Field(key), list(values)
    for value in values:
        field.check(value, (str, int, float, list, tuple, type(None)), "texts, numbers, lists or None")
    texts = [literal(value) for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, (int, float))]
    lists = [value for value in values if isinstance(value, (list, tuple))]
    cases = [f"({field.kind} = 'VARCHAR' AND {field.text} IN ({', '.join(texts)}))"] if texts else []
    if numbers:
        cases.append(f"({field.kind} = 'DOUBLE' AND {field.float} IN ({', '.join(map(number, numbers))}))")
    if truths := [truth for truth in ("false", "true") if (truth == "true") in numbers]:
        cases += [f"({field.kind} = 'BOOLEAN' AND {field.text} = '{truth}')" for truth in truths]
    if whole := [str(int(value)) for value in numbers if is_whole(value)]:
        cases.append(f"({field.kind} IN {WHOLE} AND {field.whole} IN ({', '.join(whole)}))")
    cases += [same_list(field, value) for value in lists]
    return either([settled(case) for case in cases] + [missing(key)] * (None in values))


def same_list(field: Field, values: Sequence[Any]) -> str:
    """A list of as many elements, each the same."""
    same = [f"list_contains({forms(field, [v])}, {field.items}[{i}])" for i, v in enumerate(values, 1)]
    return both([f"len({field.items}) = {len(values)}", *same])


def ordered(key: str, order: str, value: Any) -> str:
    """It is less or more than a number or a text; what is of another kind is neither."""
    field = Field(key)
    field.check(value, (str, int, float), "a text or a number")
    if order not in ORDERS:
        raise ValueError(f"{order!r} is no order; expected one of {', '.join(ORDERS)}")
    if isinstance(value, str):
        return settled(f"({field.kind} = 'VARCHAR' AND {field.text} {order} {literal(value)})")
    than = f"{order} {number(value)}"
    exactly = f"{field.whole} {order} {int(value)}" if is_whole(value) else f"{field.float} {than}"
    return settled(
        f"CASE WHEN {field.kind} IN {WHOLE} THEN {exactly} "
        f"WHEN {field.kind} = 'DOUBLE' THEN {field.float} {than} "
        f"WHEN {field.kind} = 'BOOLEAN' THEN {field.truth} {than} END"
    )


def containing_any(key: str, values: Iterable[Any]) -> str:
    """A list with one of some values, or a text with one of them in it."""
    field, values = Field(key), list(values)
    inside = [f"contains({field.text}, {literal(value)})" for value in values if isinstance(value, str)]
    cases = [f"list_has_any({field.items}, {forms(field, values)})"]
    if inside:
        cases.append(f"({field.kind} = 'VARCHAR' AND {either(inside)})")
    return either(map(settled, cases))


def containing_all(key: str, values: Iterable[Any]) -> str:
    """A list with all of some values, or a text with all of them in it."""
    return both([negated(missing(key)), *(containing_any(key, [value]) for value in values)])


def matching(key: str, part: Any, *, ignore_case: bool = False) -> str:
    """A text with another in it."""
    field = Field(key)
    field.check(part, (str,), "a text")
    text, wanted = field.text, literal(part)
    if ignore_case:
        text, wanted = f"lower({text})", f"lower({wanted})"
    return settled(f"({field.kind} = 'VARCHAR' AND contains({text}, {wanted}))")


def like(key: str, pattern: Any, *, ignore_case: bool = False) -> str:
    """A text by a pattern of SQL's LIKE."""
    field = Field(key)
    field.check(pattern, (str,), "a pattern")
    word = "ILIKE" if ignore_case else "LIKE"
    return settled(f"({field.kind} = 'VARCHAR' AND {field.text} {word} {literal(pattern)})")


def is_whole(value: float) -> bool:
    """Whether a number can equal a whole number of the metadata."""
    return math.isfinite(value) and LEAST_WHOLE <= value <= MOST_WHOLE and value == int(value)


def forms(field: Field, values: Iterable[Any]) -> str:
    """All that elements of a list may look like if they equal one of some values: 1 is also 1.0 and true."""
    found: list[Any] = []
    for value in values:
        field.check(value, (str, int, float), "texts or numbers")
        found.append(value)
        if not isinstance(value, str) and is_whole(value):
            found += [int(value), float(value)] + [bool(value)] * (value in (0, 1))
    return f"CAST(CAST({literal(json.dumps(found, ensure_ascii=False))} AS JSON) AS JSON[])"
