"""What people read: tables, in colour on a terminal. What programs read: JSON."""

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
    """Is standard output a terminal whose owner has nothing against colours?"""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def tell(as_json: bool, found: Mapping[str, Any], show: Callable[[], None]) -> None:
    """What a command found, for a program or for a person."""
    if as_json:
        print(json.dumps(tidy(found), ensure_ascii=False, allow_nan=False))
    else:
        show()


def tidy(value: Any) -> Any:
    """For JSON: plain types, floats of six digits, null for what is no number."""
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
    header: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str = "", words: int = 1
) -> None:
    """Columns side by side; the first so many are words and stand to the left. No header: facts, by name."""
    cells = [[printable(cell) for cell in row] for row in rows]
    if in_colour():
        try:
            return print_coloured(header, cells, title, words)
        except ImportError:
            pass
    if title:
        print(title)
    everything = [list(header), *cells] if header else cells
    widths = [max(map(width, column)) for column in zip(*everything, strict=True)]
    for row in everything:
        padded = []
        for place, (cell, widest) in enumerate(zip(row, widths, strict=True)):
            blanks = " " * (widest - width(cell))
            padded.append(cell + blanks if place < words else blanks + cell)
        print(("  " + "  ".join(padded)).rstrip())


def print_coloured(header: Sequence[str], cells: Sequence[Sequence[str]], title: str, words: int) -> None:
    """The same, by rich."""
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
    for place in range(len(cells[0]) if cells else len(header)):
        table.add_column(
            Text(header[place] if header else ""),
            justify="left" if place < words else "right",
            style="green" if place == 0 else "",
        )
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def print_facts(facts: Mapping[str, Any], *, title: str = "") -> None:
    """Names and what there is to say of them."""
    print_table((), [(name, value) for name, value in facts.items()], title=title, words=2)


def size(number: float) -> str:
    """Bytes as people count them."""
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
