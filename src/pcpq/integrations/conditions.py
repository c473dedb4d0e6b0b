"""SQL conditions on metadata, a column of JSON texts, because documents have different keys and types.

Values are equal as in Python: 1, 1.0 and True are equal, "1" is not. A condition is true or false, never null,
so that its negation holds for documents that have no such key.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Name of the column of JSON texts.
METADATA = "metadata"
WHOLE = "('BIGINT', 'UBIGINT')"
# Range of the integers in DuckDB's JSON functions; they read other whole numbers as floats.
LEAST_WHOLE, MOST_WHOLE = -(1 << 63), (1 << 64) - 1
ORDERS = ("<", "<=", ">", ">=")


def literal(text: str) -> str:
    """Return a text as an SQL literal; quotes are escaped, and a NUL character becomes chr(0)."""
    return " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in text.split("\0"))


def number(value: float) -> str:
    """Return a number as an SQL literal of type DOUBLE, which the exponent makes it."""
    try:
        text = repr(float(value))
    except OverflowError:
        text = "inf" if value > 0 else "-inf"
    return f"CAST('{text}' AS DOUBLE)" if "inf" in text else text if "e" in text else f"{text}e0"


# A key of the metadata, or the keys of nested objects from the outermost one inwards.
Key = str | tuple[str, ...]


def pointer(keys: Sequence[str]) -> str:
    """Return the JSON pointer of nested keys as an SQL literal."""
    return literal("".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys))


class Field:
    """SQL expressions for the type and the value of a key of the metadata.

    A key with dots, "author.name", is the key of this name if a document has it, otherwise a nested one.
    """

    def __init__(self, key: Key) -> None:
        keys = (key,) if isinstance(key, str) else key
        if not isinstance(keys, tuple) or not all(isinstance(one, str) for one in keys):
            raise TypeError(f"a key of metadata is {key!r}; expected a str")
        nested = tuple(key.split(".")) if isinstance(key, str) else keys

        def extracted(function: str) -> str:
            found = [f"{function}({METADATA}, {pointer(one)})" for one in dict.fromkeys((keys, nested))]
            if len(found) == 1:
                return found[0]
            return (
                f"CASE WHEN json_type({METADATA}, {pointer(keys)}) IS NULL THEN {found[1]} ELSE {found[0]} END"
            )

        self.key = ".".join(keys)
        self.kind = f"({extracted('json_type')})"
        self.text = f"({extracted('json_extract_string')})"
        self.items = f"TRY_CAST({extracted('json_extract')} AS JSON[])"
        self.whole = f"TRY_CAST({self.text} AS HUGEINT)"
        self.float = f"TRY_CAST({self.text} AS DOUBLE)"
        self.truth = f"CAST({self.text} = 'true' AS INTEGER)"

    def check(self, value: Any, kinds: tuple[type, ...], expected: str) -> None:
        """Raise a TypeError unless a value is of one of the given types, a ValueError if it is NaN."""
        if not isinstance(value, kinds):
            hint = f"; a nested key is {self.key + '.key'!r}" if isinstance(value, Mapping) else ""
            raise TypeError(f"{self.key!r} is compared with {value!r}; expected {expected}{hint}")
        if isinstance(value, float) and math.isnan(value):
            raise ValueError(f"{self.key!r} is compared with {value!r}; nothing equals it")


def false_if_null(condition: str) -> str:
    """Return a condition that is false where the given one is null."""
    return f"coalesce({condition}, false)"


def both(conditions: Iterable[str]) -> str:
    """Return a condition that holds if all conditions hold."""
    return joined(list(conditions), "AND", "true")


def either(conditions: Iterable[str]) -> str:
    """Return a condition that holds if any of the conditions holds."""
    return joined(list(conditions), "OR", "false")


def joined(conditions: list[str], word: str, nothing: str) -> str:
    """Join conditions as a balanced tree, because SQL parsers limit the depth of an expression."""
    if len(conditions) <= 1:
        return conditions[0] if conditions else nothing
    middle = len(conditions) // 2
    left, right = (joined(half, word, nothing) for half in (conditions[:middle], conditions[middle:]))
    return f"({left} {word} {right})"


def negated(condition: str) -> str:
    """Return a condition that holds if the given one does not."""
    return f"(NOT {condition})"


def missing(key: Key) -> str:
    """Return a condition that holds if a key does not exist or is null."""
    return f"coalesce({Field(key).kind} = 'NULL', true)"


def empty(key: Key) -> str:
    """Return a condition that holds if a key is missing, or its value is an empty text or an empty list."""
    field = Field(key)
    nothing = f"({field.kind} = 'VARCHAR' AND {field.text} = '') OR len({field.items}) = 0"
    return f"({missing(key)} OR {false_if_null(nothing)})"


def among(key: Key, values: Iterable[Any]) -> str:
    """Return a condition that holds if a key equals one of the values.

    Values are texts, numbers, booleans, lists of these, or None for a missing key.
    """
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
    return either([false_if_null(case) for case in cases] + [missing(key)] * (None in values))


def same_list(field: Field, values: Sequence[Any]) -> str:
    """Return a condition that holds if a field is a list of equal length with equal elements."""
    same = [f"list_contains({json_forms(field, [v])}, {field.items}[{i}])" for i, v in enumerate(values, 1)]
    return both([f"len({field.items}) = {len(values)}", *same])


def ordered(key: Key, order: str, value: Any) -> str:
    """Return a condition that compares a key with a number or a text; false for values of another type."""
    field = Field(key)
    field.check(value, (str, int, float), "a text or a number")
    if order not in ORDERS:
        raise ValueError(f"{order!r} is not a comparison; expected one of {', '.join(ORDERS)}")
    if isinstance(value, str):
        return false_if_null(f"({field.kind} = 'VARCHAR' AND {field.text} {order} {literal(value)})")
    than = f"{order} {number(value)}"
    exactly = f"{field.whole} {order} {int(value)}" if is_whole(value) else f"{field.float} {than}"
    return false_if_null(
        f"CASE WHEN {field.kind} IN {WHOLE} THEN {exactly} "
        f"WHEN {field.kind} = 'DOUBLE' THEN {field.float} {than} "
        f"WHEN {field.kind} = 'BOOLEAN' THEN {field.truth} {than} END"
    )


def containing_any(key: Key, values: Iterable[Any]) -> str:
    """Return a condition that holds for a list or a text that contains at least one of the values."""
    field, values = Field(key), list(values)
    inside = [f"contains({field.text}, {literal(value)})" for value in values if isinstance(value, str)]
    cases = [f"list_has_any({field.items}, {json_forms(field, values)})"]
    if inside:
        cases.append(f"({field.kind} = 'VARCHAR' AND {either(inside)})")
    return either(map(false_if_null, cases))


def containing_all(key: Key, values: Iterable[Any]) -> str:
    """Return a condition that holds for a list or a text that contains all of the values."""
    return both([negated(missing(key)), *(containing_any(key, [value]) for value in values)])


def matching(key: Key, part: Any, *, ignore_case: bool = False) -> str:
    """Return a condition that holds for a text that contains `part`."""
    field = Field(key)
    field.check(part, (str,), "a text")
    text, wanted = field.text, literal(part)
    if ignore_case:
        text, wanted = f"lower({text})", f"lower({wanted})"
    return false_if_null(f"({field.kind} = 'VARCHAR' AND contains({text}, {wanted}))")


def like(key: Key, pattern: Any, *, ignore_case: bool = False) -> str:
    """Return a condition that holds for a text that matches a pattern of SQL's LIKE."""
    field = Field(key)
    field.check(pattern, (str,), "a pattern")
    word = "ILIKE" if ignore_case else "LIKE"
    return false_if_null(f"({field.kind} = 'VARCHAR' AND {field.text} {word} {literal(pattern)})")


def is_whole(value: float) -> bool:
    """Return whether a number can equal an integer of the metadata."""
    return math.isfinite(value) and LEAST_WHOLE <= value <= MOST_WHOLE and value == int(value)


def json_forms(field: Field, values: Iterable[Any]) -> str:
    """Return an SQL list of all JSON forms of the values: 1 is also written 1.0 and true."""
    found: list[Any] = []
    for value in values:
        field.check(value, (str, int, float), "texts or numbers")
        found.append(value)
        if not isinstance(value, str) and is_whole(value):
            found += [int(value), float(value)] + [bool(value)] * (value in (0, 1))
    return f"CAST(CAST({literal(json.dumps(found, ensure_ascii=False))} AS JSON) AS JSON[])"
