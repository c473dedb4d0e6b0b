"""The SQL that a condition on attributes may contain.

Conditions may come from untrusted sources. DuckDB parses a condition, and it is refused unless it consists of
columns, constants, operators and the functions listed here: all of them depend only on their arguments, and
none returns a value that is much longer than its arguments. An allowed condition can still be slow; where.py
limits it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pcpq.segment.attributes import folded

# Most columns that a condition may join to longer values, and most characters of constants joined with them.
MOST_JOINED, MOST_CHARACTERS = 16, 1000
# Decimal numbers of so many digits are read as the same float64 by SQL and by Python.
EXACT_DIGITS = 15
# The syntax tree of `SELECT 1`, read once: what a condition adds to it is the condition.
_select: list[str] = []


def names(text: str) -> frozenset[str]:
    """Return the set of names in a text, separated by spaces."""
    return frozenset(text.split())


EXPRESSIONS = names(
    "BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR TYPE"
)
OPERATORS = names(
    """
    ARRAY_EXTRACT ARRAY_SLICE COMPARE_IN COMPARE_NOT_IN OPERATOR_COALESCE OPERATOR_IS_NOT_NULL OPERATOR_IS_NULL
    OPERATOR_NOT OPERATOR_NULLIF OPERATOR_TRY STRUCT_EXTRACT
    """
)
# Functions whose result is about as long as all arguments together, or as a format string.
JOINING = names(
    """
    || array_cat array_concat concat concat_ws list_cat list_concat list_value row strftime struct_pack
    """
)
# Functions with JSON paths: a path with wildcards could select every part of a value, and parts of parts.
BY_PATH = names(
    """
    ->> json_array_length json_exists json_extract json_extract_path json_extract_path_text json_extract_string
    json_keys json_type json_value
    """
)
# All other allowed functions. Left out are those that depend on time, random numbers, settings or files; those
# whose result may be far longer than the arguments (repeat); those whose time is the product of the arguments'
# lengths (levenshtein); and those that take a lambda.
PLAIN = names(
    """
    + - * / // % ** ^ & | ~ << >> ~~ !~~ ~~* !~~* ~~~ ^@ && @> <@ abs acos add array_contains array_extract
    array_has array_has_all array_has_any array_indexof array_length array_position array_slice array_sort
    array_unique ascii asin atan atan2 bit_count bit_length cardinality cbrt ceil ceiling century
    char_length character_length chr contains cos cot date_add date_diff date_part date_sub date_trunc
    datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade degrees divide
    element_at ends_with epoch epoch_ms epoch_ns epoch_us era even exp fdiv flatten floor fmod gcd greatest
    hash hour if ilike_escape instr isfinite isinf isnan isodow isoyear json_contains json_valid julian
    last_day lcase lcm least left len length like_escape list_any_value list_avg list_contains list_count
    list_distinct list_element list_extract list_first list_has list_has_all list_has_any list_indexof
    list_last list_max list_min list_position list_reverse_sort list_slice list_sort list_sum list_unique ln
    log log10 log2 lower ltrim make_date make_time make_timestamp map_contains map_extract map_extract_value
    map_keys map_values md5 microsecond millennium millisecond minute mod month monthname multiply
    nfc_normalize not_ilike_escape not_like_escape nullif octet_length ord pi position pow power prefix
    quarter radians regexp_extract regexp_full_match regexp_matches reverse right round rtrim second sha256
    sign sin split_part sqrt starts_with strip_accents strlen strpos strptime struct_extract substr
    substring subtract suffix tan time_bucket timezone to_days to_hours to_microseconds to_milliseconds
    to_minutes to_months to_seconds to_timestamp to_weeks to_years translate trim trunc try_strptime ucase
    unicode upper week weekday weekofyear xor year yearweek
    """
)
FUNCTIONS = PLAIN | JOINING | BY_PATH
# Arrays of a fixed size are left out: they take their full size in every row, even if it is null.
TYPES = names(
    """
    BIGINT BINARY BLOB BOOL BOOLEAN BPCHAR BYTEA CHAR DATE DATETIME DEC DECIMAL DOUBLE FLOAT FLOAT4 FLOAT8
    HUGEINT INT INT1 INT128 INT16 INT2 INT32 INT4 INT64 INT8 INTEGER INTERVAL JSON LIST LOGICAL LONG MAP
    NUMERIC NVARCHAR REAL SHORT SIGNED SMALLINT STRING STRUCT TEXT TIME TIMESTAMP TIMESTAMPTZ TIMESTAMP_MS
    TIMESTAMP_NS TIMESTAMP_S TIMESTAMP_US TIMETZ TINYINT UBIGINT UHUGEINT UINT16 UINT32 UINT64 UINT8
    UINTEGER USMALLINT UTINYINT UUID VARBINARY VARCHAR
    """
) | {"TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE"}

Node = dict[str, Any]
VARCHAR = {"id": "VARCHAR", "type_info": None}


def refusal(where: str, reason: str) -> ValueError:
    """Return a ValueError that quotes the condition, or the beginning of a long one, and gives the reason."""
    shown = repr(where) if len(where) <= 1000 else f"{where[:1000]!r}..."
    return ValueError(f"where is {shown}: {reason}")


def listed(names: Sequence[str]) -> str:
    """Return the names of columns as text, at most 50 of them."""
    return ", ".join(names) if len(names) <= 50 else f"{', '.join(names[:50])} and {len(names) - 50} more"


class Comparison(NamedTuple):
    """A comparison of a column with constants that is true wherever a condition holds."""

    column: str
    operator: str  # "=", with one of several values, "<", "<=", ">", ">=", or "^@" for strings with a prefix
    values: tuple[str | int | float, ...]


class ConditionColumns(NamedTuple):
    """The columns in a condition, and comparisons that are true wherever it holds."""

    used: list[str]  # in the order of the table
    required: list[Comparison]
    complete: bool  # the condition holds wherever all these comparisons are true


def columns_of(connection: Any, where: str, names: Sequence[str]) -> ConditionColumns:
    """Return the columns in a condition; raise a ValueError if it is not allowed."""
    by_folded_name = {folded(name): name for name in names}
    used, root = set(), root_of(connection, where)
    for node in nodes_of(root):
        refuse_node(node, where)
        if node["class"] == "COLUMN_REF":
            name = node["column_names"][0]
            if folded(name) not in by_folded_name:
                raise refusal(where, f"there is no column {name!r}; the columns are {listed(names)}")
            used.add(by_folded_name[folded(name)])
    refuse_growth(root, where)
    columns = [name for name in names if name in used] or list(names[:1])  # a table needs columns to have rows
    parts = list(comparisons_in(root))
    required = [one._replace(column=by_folded_name[folded(one.column)]) for one in parts if one is not None]
    return ConditionColumns(columns, required, complete=None not in parts)


# As written, and with the sides exchanged.
COMPARISONS = {
    "COMPARE_EQUAL": ("=", "="),
    "COMPARE_LESSTHAN": ("<", ">"),
    "COMPARE_LESSTHANOREQUALTO": ("<=", ">="),
    "COMPARE_GREATERTHAN": (">", "<"),
    "COMPARE_GREATERTHANOREQUALTO": (">=", "<="),
}


def comparisons_in(root: Node) -> Iterator[Comparison | None]:
    """Yield the parts of a condition that AND joins: comparisons with constants, None for any other part."""
    kind = root["type"]
    if kind == "CONJUNCTION_AND":
        for child in root["children"]:
            yield from comparisons_in(child)
    elif kind in COMPARISONS:
        operator, exchanged = COMPARISONS[kind]
        yield compared(root["left"], operator, [root["right"]]) or compared(
            root["right"], exchanged, [root["left"]]
        )
    elif kind == "COMPARE_BETWEEN":
        yield compared(root["input"], ">=", [root["lower"]])
        yield compared(root["input"], "<=", [root["upper"]])
    elif kind == "COMPARE_IN" and len(root["children"]) > 1:
        yield compared(root["children"][0], "=", root["children"][1:])
    elif root["class"] == "FUNCTION" and root["function_name"] == "~~":
        yield begins_with(*arguments_of(root))
    else:
        yield None


def begins_with(column: Node, pattern: Node) -> Comparison | None:
    """Return x LIKE 'abc%' as a comparison with a prefix; None for other patterns."""
    one = compared(column, "^@", [pattern])
    text = one and one.values[0]
    if one is None or not isinstance(text, str) or not text.endswith("%"):
        return None
    prefix = text[:-1]
    return None if "%" in prefix or "_" in prefix else one._replace(values=(prefix,))


def compared(column: Node, operator: str, constants: list[Node]) -> Comparison | None:
    """Return the comparison of a column with constants; None if these are other expressions."""
    if column.get("class") != "COLUMN_REF" or len(column["column_names"]) != 1:
        return None
    values = [constant_in(node) for node in constants]
    known = tuple(value for value in values if value is not None)
    return Comparison(column["column_names"][0], operator, known) if len(known) == len(values) else None


def constant_in(node: Node) -> str | int | float | None:
    """Return the value of a constant; None for other expressions, and those in an unknown form."""
    literal, value = node.get("literal"), node.get("value")
    if isinstance(literal, dict):  # DuckDB 2
        read, found = READERS.get(str(literal.get("kind"))), literal.get("text")
    elif isinstance(value, dict) and value.get("is_null") is False:
        kind, found = value.get("type"), value.get("value")
        whole = isinstance(kind, dict) and kind.get("id") in ("INTEGER", "BIGINT")
        read, found = (
            READERS["STRING"] if kind == VARCHAR else READERS["INTEGER"] if whole else None,
            value.get("value"),
        )
    else:
        return None
    try:
        return None if read is None or found is None else read(found)
    except ValueError:
        return None


def text_of(value: Any) -> str | None:
    """Return a value if it is a string."""
    return value if isinstance(value, str) else None


def float_of(text: Any) -> float | None:
    """Return a number with a point or an exponent; None if it has so many digits that SQL could round it."""
    number = float(text)
    return number if math.isfinite(number) and sum(map(str.isdigit, text)) <= EXACT_DIGITS else None


READERS: dict[str, Callable[[Any], str | int | float | None]] = {
    "STRING": text_of,
    "INTEGER": int,
    "NUMERIC": float_of,
}


def root_of(connection: Any, where: str) -> Node:
    """Return the syntax tree of a condition, parsed by DuckDB; raise a ValueError if it is not a condition."""
    # DuckDB's SQLExpression also puts a SELECT before the condition.
    query = "SELECT json_serialize_sql(?)"
    if not _select:
        _select.append(connection.execute(query, ["SELECT 1"]).fetchall()[0][0])
    text = connection.execute(query, [f"SELECT {where}"]).fetchall()[0][0]
    try:
        given, plain = json.loads(text), json.loads(_select[0])
        if given["error"]:
            raise refusal(where, str(given["error_message"]))
        (select,), (nothing,) = (one["statements"] for one in (given, plain))
        expressions = select["node"].pop("select_list")
        nothing["node"].pop("select_list")
        if select != nothing or len(expressions) != 1 or expressions[0]["alias"]:
            raise refusal(where, "expected one condition, and no other part of a statement")
        root: Node = expressions[0]
    except RecursionError as error:
        raise refusal(where, "it is nested too deeply") from error
    except (KeyError, TypeError) as error:
        raise refusal(where, "this version of DuckDB parses it in an unknown way") from error
    return root


def nodes_of(root: Any) -> Iterator[Node]:
    """Yield all expressions in an expression, including itself."""
    left = [root]
    if not isinstance(root, dict) or "class" not in root:
        raise ValueError("this version of DuckDB parses conditions in an unknown way")
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if "class" in one:
                yield one
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)


def refuse_node(node: Node, where: str) -> None:
    """Raise a ValueError if an expression is not allowed in conditions."""
    kind = node["class"]
    if kind not in EXPRESSIONS:
        raise refusal(where, f"a condition may not hold a {kind.lower().replace('_', ' ')}")
    if kind == "OPERATOR" and node["type"] not in OPERATORS:
        raise refusal(where, f"a condition may not hold {node['type'].lower()}")
    if kind == "FUNCTION":
        name = node["function_name"].lower()
        if name not in FUNCTIONS or node["schema"] not in ("", "main") or node["catalog"] not in ("", "system"):
            raise refusal(where, f"a condition may not call the function {name!r}")
        if name in BY_PATH:
            refuse_paths(arguments_of(node)[1:], where)
    if kind == "LAMBDA":  # the operator ->, as no function that takes a lambda is allowed
        refuse_paths([node["expr"]], where)
    for name in types_in(node):
        if name.upper() not in TYPES:
            raise refusal(where, f"a condition may not cast to {name}")


def types_in(node: Node) -> Iterator[str]:
    """Yield the names of types in a cast.

    They are expressions in newer versions of DuckDB, and a separate tree in older ones.
    """
    if node["class"] == "TYPE":
        yield ".".join(part for part in (node["catalog"], node["schema"], node["type_name"]) if part)
    left = [node["cast_type"]] if "cast_type" in node else []
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if "user_type_name" in one:
                yield ".".join(part for part in (one["catalog"], one["schema"], one["user_type_name"]) if part)
            elif "id" in one and one["id"] != "USER":
                yield one["id"]
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)


def arguments_of(node: Node) -> list[Node]:
    """Return the arguments of a function."""
    if "arguments" in node:
        return [one["expression"] for one in node["arguments"]]
    return list(node["children"])


def refuse_paths(paths: Iterable[Node], where: str) -> None:
    """Raise a ValueError unless each JSON path is one constant without wildcards."""
    for path in paths:
        for node in nodes_of(path):
            several = node["class"] == "COLUMN_REF" or node.get("function_name") == "list_value"
            if several or any("*" in text and text.startswith("$") for text in texts_of(node)):
                raise refusal(where, "a path in JSON must be one constant, without *")


def texts_of(node: Node) -> list[str]:
    """Return the value of a constant as text, in a list; an empty list for other expressions."""
    if node["class"] != "CONSTANT":
        return []
    value = node["literal"] if "literal" in node else node["value"]
    return [str(value["text"] if "text" in value else value.get("value"))]


def refuse_growth(root: Node, where: str) -> None:
    """Raise a ValueError for a condition that could make values far longer than the row they come from."""
    joined = 0
    for node in nodes_of(root):
        if node["class"] == "FUNCTION" and node["function_name"].lower() in JOINING:
            parts = [list(nodes_of(argument)) for argument in arguments_of(node)]
            columns = sum(any(one["class"] == "COLUMN_REF" for one in part) for part in parts)
            characters = sum(len(text) for part in parts for one in part for text in texts_of(one))
            joined += columns
            if columns and (joined > MOST_JOINED or characters > MOST_CHARACTERS):
                limit = f"{MOST_JOINED} columns and {MOST_CHARACTERS} characters of constants"
                raise refusal(where, f"it joins more than {limit} to longer values")
