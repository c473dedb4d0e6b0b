"""What a page consists of: panels of views, each with charts, tables and where the numbers come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pcpq.experiments.report.parts import Part

SIGNIFICANT = "significant"
COUNT = ",.0f"
SHARE = ".4f"
ONE_DIGIT = ",.1f"
NONE = "\N{EN DASH}"  # stands where nothing was measured

Cell = str | float | None


@dataclass(frozen=True)
class Axis:
    """What an axis measures, in which unit, and how it is spaced: linear, log, or recall (wide towards 1)."""

    label: str
    scale: str
    reach: tuple[float, ...] = ()  # values that are on it in any case


@dataclass(frozen=True)
class Point:
    """One measurement in a chart."""

    x: float
    y: float
    tip: list[tuple[str, str]]  # names and values, as they are shown
    filled: bool = True
    joined: bool = True  # the line goes through it


@dataclass(frozen=True)
class Series:
    """The measurements of one method; those of one `look` share a colour and a shape."""

    name: str
    points: list[Point]
    line: bool = True
    look: str = ""  # its name, unless given
    hollow: bool = False


@dataclass(frozen=True)
class Mark:
    """A straight line across a chart at one value of the axis `x` or `y`."""

    axis: str
    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """Points over two axes; methods without points are left out."""

    title: str
    x: Axis
    y: Axis
    series: list[Series]
    marks: list[Mark] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, how its numbers are written ("" for text), whether bars show them too."""

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
    """The file a view comes from, the command that wrote it, and what that ran on."""

    file: str
    command: str
    facts: str


@dataclass(frozen=True)
class View:
    """What a panel shows for one choice."""

    keys: tuple[str, ...]
    about: list[str]
    charts: list[Chart]
    tables: list[Table]
    sources: list[Source]


@dataclass(frozen=True)
class Panel:
    """A section of the page. Panels of one group share what is chosen and which methods are hidden."""

    title: str
    about: str
    group: str
    choices: tuple[str, ...]  # names of what is chosen, one for each key of a view
    views: list[View]


def figure(value: float | None, form: str) -> str:
    """A number in writing; a dash for none."""
    if value is None:
        return NONE
    if form != SIGNIFICANT:
        return format(value, form)
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    # Very small numbers would be a row of zeros.
    return format(value, ".3g") if digits > 6 else format(value, f",.{digits}f")


def words(part: Part | None) -> str:
    """Any JSON value in writing: an object as "name value, name value"."""
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
    """A value within another: in brackets if it has parts itself."""
    return f"({words(part)})" if isinstance(part.value, dict | list) else words(part)


def source(part: Part, environment: str, threads: float | None) -> list[Source]:
    """Where numbers come from, if the file says so; at least the file."""
    where = part.maybe(environment)
    facts = [] if where is None else [text for name in ("cpu", "simd") if (text := said(where, name))]
    if where is not None and (cpus := said(where, "cpus")):
        facts.append(f"{cpus} CPU")
    if threads is not None:
        facts.append(f"{threads:.0f} thread" + ("" if threads == 1 else "s"))
    if where is not None:
        shown = {"command", "date", "cpu", "simd", "cpus"}
        facts += [f"{name} {words(value)}" for name, value in where.fields().items() if name not in shown]
        facts += [text for text in (said(where, "date"),) if text]
    command = "" if where is None else said(where, "command")
    return [Source(part.file, command, ", ".join(facts))]


def said(part: Part, name: str) -> str:
    """A field in writing, "" if it is not there."""
    found = part.maybe(name)
    return "" if found is None else words(found)


def data_line(data: Part) -> str:
    """A data set in a phrase: its name, its size, and whatever else the file says of it."""
    parts = [data.part("name").text()]
    n, d = data.maybe("n"), data.maybe("d")
    if n is not None and d is not None:
        parts.append(f"{n.positive():,.0f} vectors of {d.positive():,.0f} dimensions")
    rest = (item for item in data.fields().items() if item[0] not in {"name", "n", "d", "note"})
    parts += [f"{name.replace('_', ' ')} {words(value)}" for name, value in rest if value.value is not None]
    return ", ".join(parts)


def labels(names: list[str], files: list[str]) -> list[str]:
    """One label for each file: its name, and the file's where several have that name."""
    return [
        name if names.count(name) == 1 else f"{name} ({file.removesuffix('.json')})"
        for name, file in zip(names, files, strict=True)
    ]
