"""What a page may ask for, checked before anything is done."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple, NoReturn

from pcpq.search.where import WhereLimits
from pcpq.util.validation import whole_number

MOST_K = 1000
USUAL_K, USUAL_TARGET = 10, 0.95
FIELDS = ("id", "row", "k", "target_recall", "where")
# A condition is written by the person at the page; these limits keep a slow one from blocking it.
LIMITS = WhereLimits(seconds=5.0, memory=1 << 28, threads=1, length=10_000)
WHOLE_NUMBER = re.compile(r"[0-9]{1,19}")


class Wanted(NamedTuple):
    """A search that the page asks for: by an item of the index or by a row of the queries."""

    id: str | None
    row: int | None
    k: int
    target: float
    where: str | None


def parsed(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a request; a ValueError if it is none."""
    try:
        values = json.loads(body.decode("utf-8"), parse_constant=refuse_constant)
    except RecursionError:
        raise ValueError("the request is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the request is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError("the request is not a JSON object")
    return values


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and infinity, which Python reads but JSON has not."""
    raise ValueError(f"{name} is not a number of JSON")


def wanted_search(values: dict[str, Any]) -> Wanted:
    """Return the search that a JSON object describes; a ValueError names the field that is wrong."""
    for name in values:
        if name not in FIELDS:
            raise ValueError(f"unknown field {name[:50]!r}; expected {', '.join(FIELDS)}")
    some_id, row, where = values.get("id"), values.get("row"), values.get("where")
    if (some_id is None) == (row is None):
        raise ValueError("give either an id or a row")
    if some_id is not None and not isinstance(some_id, str):
        raise ValueError("id must be text, also for integer ids")
    if where is not None and not isinstance(where, str):
        raise ValueError("where must be text, an SQL condition")
    if where is not None and len(where) > LIMITS.length:
        raise ValueError(f"where has {len(where):,} characters; expected at most {LIMITS.length:,}")
    return Wanted(
        some_id,
        None if row is None else whole_number("row", row, 0, 2**63 - 1),
        whole_number("k", values.get("k", USUAL_K), 1, MOST_K),
        target_in(values.get("target_recall", USUAL_TARGET)),
        where if where is not None and where.strip() else None,
    )


def target_in(value: Any) -> float:
    """Return a target recall; a ValueError if it is out of range."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1
    if not usable or math.isnan(value):
        raise ValueError("target_recall must be a number above 0 and at most 1")
    return float(value)


def id_in(text: str, kind: str | None) -> Any:
    """Return an id of the index, given as text; a ValueError if it cannot be one."""
    if kind == "str":
        return text
    stripped = text.strip()
    if not WHOLE_NUMBER.fullmatch(stripped) or int(stripped) >= 2**63:
        raise ValueError(f"ids of this index are whole numbers, not {text[:50]!r}")
    return int(stripped)
