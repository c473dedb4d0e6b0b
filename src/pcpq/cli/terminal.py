"""Output of commands: tables, coloured on a terminal, or JSON."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pcpq.io.formats.results import printable, width


def in_colour() -> bool:
    """Return whether standard output is a terminal on which colours are wanted."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def print_result(as_json: bool, found: Mapping[str, Any], show: Callable[[], None]) -> None:
    """Print the results of a command: as JSON, or by calling `show`."""
    if as_json:
        print(json.dumps(tidy(found), ensure_ascii=False, allow_nan=False))
    else:
        show()


def tidy(value: Any) -> Any:
    """Return a value for JSON: plain types, floats with six digits, None for NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(name): tidy(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [tidy(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str = "", left: int = 1
) -> None:
    """Print a table with aligned columns; the first `left` columns are aligned left, the others right.

    An empty header prints rows of names and values.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    if in_colour():
        try:
            return print_coloured(header, cells, title, left)
        except ImportError:
            pass
    if title:
        print(title)
    lines = [list(header), *cells] if header else cells
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    for row in lines:
        padded = []
        for column, (cell, widest) in enumerate(zip(row, widths, strict=True)):
            blanks = " " * (widest - width(cell))
            padded.append(cell + blanks if column < left else blanks + cell)
        print(("  " + "  ".join(padded)).rstrip())


def print_coloured(header: Sequence[str], cells: Sequence[Sequence[str]], title: str, left: int) -> None:
    """Print a table in colour, by rich."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, "bold") if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_header=bool(header),
        header_style="bold cyan",
    )
    for column in range(len(cells[0]) if cells else len(header)):
        table.add_column(
            Text(header[column] if header else ""),
            justify="left" if column < left else "right",
            style="green" if column == 0 else "",
        )
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def print_facts(facts: Mapping[str, Any], *, title: str = "") -> None:
    """Print names and values as a table with two columns."""
    print_table((), [(name, value) for name, value in facts.items()], title=title, left=2)


def size(number: float) -> str:
    """Return a number of bytes as text, such as "1.5 MB"."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def stop_writing() -> None:
    """Redirect standard output to the null device; otherwise Python reports an error when it closes it."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
