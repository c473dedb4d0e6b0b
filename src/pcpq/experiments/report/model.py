"""Contents of a page: panels of views, each with charts, tables and sources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pcpq.experiments.report.parts import Part

SIGNIFICANT = "significant"
COUNT = ",.0f"
SHARE = ".4f"
ONE_DIGIT = ",.1f"
NONE = "\N{EN DASH}"  # shown if nothing was measured

Cell = str | float | None


@dataclass(frozen=True)
class Axis:
    """Label and unit of an axis, and its scale: linear, log, or recall (wider towards 1)."""

    label: str
    scale: str
    reach: tuple[float, ...] = ()  # values that the axis always includes


@dataclass(frozen=True)
class Point:
    """One measurement in a chart."""

    x: float
    y: float
    tip: list[tuple[str, str]]  # names and values of the tooltip
    filled: bool = True
    joined: bool = True  # whether the line goes through it
    interval: tuple[float, float] | None = None  # of y


@dataclass(frozen=True)
class Series:
    """Measurements of one method; series of the same `look` share a color, a shape and a legend entry."""

    name: str
    points: list[Point]
    line: bool = True
    look: str = ""  # empty: the name
    hollow: bool = False


@dataclass(frozen=True)
class Mark:
    """A straight line across a chart at one value of the axis `x` or `y`."""

    axis: str
    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A chart of points over two axes; series without points are left out."""

    title: str
    x: Axis
    y: Axis
    series: list[Series]
    marks: list[Mark] = field(default_factory=list)
    note: str = ""
    main: bool = False  # drawn larger, with the names of methods at the ends of lines


@dataclass(frozen=True)
class Bar:
    """A bar of a value from 0 on, with its interval if it is known."""

    label: str
    value: float
    interval: tuple[float, float] | None = None
    hollow: bool = False


@dataclass(frozen=True)
class BarGroup:
    """Bars of one method."""

    title: str
    look: str
    bars: list[Bar]


@dataclass(frozen=True)
class Bars:
    """A chart of horizontal bars; all groups have the same scale."""

    title: str
    form: str  # format of the numbers
    groups: list[BarGroup]
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, the format of its numbers ("" for text), and whether bars are drawn."""

    name: str
    form: str = ""
    bar: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns."""

    caption: str
    columns: Sequence[Column]
    rows: list[list[Cell]]


@dataclass(frozen=True)
class Source:
    """Origin of a view: the file, the command that wrote it, and its environment."""

    file: str
    command: str
    facts: str


@dataclass(frozen=True)
class View:
    """Content of a panel for one choice."""

    keys: tuple[str, ...]
    about: list[str]
    charts: list[Chart]
    tables: list[Table]
    sources: list[Source]
    bars: list[Bars] = field(default_factory=list)


@dataclass(frozen=True)
class Panel:
    """A section of the page. Panels of one group share their choices."""

    title: str
    about: str
    group: str
    choices: tuple[str, ...]  # names of the choices, one per key of a view
    views: list[View]


def figure(value: float | None, form: str) -> str:
    """Return a formatted number; a dash for None."""
    if value is None:
        return NONE
    if form != SIGNIFICANT:
        return format(value, form)
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    # In fixed notation, very small numbers would be a row of zeros.
    return format(value, ".3g") if digits > 6 else format(value, f",.{digits}f")


def as_text(part: Part | None) -> str:
    """Return any JSON value as text; an object becomes "name value, name value"."""
    if part is None:
        return NONE
    value = part.value
    if isinstance(value, dict):
        fields = ((name, field) for name, field in part.fields().items() if field.value is not None)
        return ", ".join(f"{name.replace('_', ' ')} {inner(field)}" for name, field in fields) or NONE
    if isinstance(value, list):
        return ", ".join(inner(row) for row in part.rows()) or NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NONE if value is None else str(value)


def inner(part: Part) -> str:
    """Return a nested value as text, in parentheses if it is an object or an array."""
    return f"({as_text(part)})" if isinstance(part.value, dict | list) else as_text(part)


def source(part: Part, environment: str, threads: float | None) -> list[Source]:
    """Return the origin of numbers: the file, and the command and environment if it has them."""
    where = part.maybe(environment)
    facts = [] if where is None else [text for name in ("cpu", "simd") if (text := field_text(where, name))]
    if where is not None and (cpus := field_text(where, "cpus")):
        facts.append(f"{cpus} CPU")
    if threads is not None:
        facts.append(f"{threads:.0f} thread" + ("" if threads == 1 else "s"))
    if where is not None:
        shown = {"command", "date", "cpu", "simd", "cpus"}
        facts += [
            f"{name.replace('_', ' ')} {as_text(value)}"
            for name, value in where.fields().items()
            if name not in shown
        ]
        facts += [text for text in (field_text(where, "date"),) if text]
    command = "" if where is None else field_text(where, "command")
    return [Source(part.file, command, ", ".join(facts))]


def field_text(part: Part, name: str) -> str:
    """Return a field as text; "" if it is missing."""
    found = part.maybe(name)
    return "" if found is None else as_text(found)


def data_line(data: Part) -> str:
    """Return a description of a data set: its name, its size, and the other fields of the file."""
    parts = [data.part("name").text()]
    n, d = data.maybe("n"), data.maybe("d")
    if n is not None and d is not None:
        parts.append(f"{n.positive():,.0f} vectors of {d.positive():,.0f} dimensions")
    rest = (item for item in data.fields().items() if item[0] not in {"name", "n", "d", "note"})
    parts += [f"{name.replace('_', ' ')} {as_text(value)}" for name, value in rest if value.value is not None]
    return ", ".join(parts)
