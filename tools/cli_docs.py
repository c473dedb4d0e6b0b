"""Write docs/cli.md from the help of the commands; with --check, fail if it is out of date."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pcpq.cli.parsers import Parser
from pcpq.cli.problems import EXIT_CODES, EXTRAS
from pcpq.cli.program import make_commands
from pcpq.formats import FORMATS, RESULT_FORMATS, WRITTEN_FORMATS

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
# Formats that need a package besides NumPy.
NEED = {"hdf5": "h5py", "parquet": "pyarrow", "arrow": "pyarrow"}


INTRODUCTION = """
`pip install .` installs the command `pcpq`. Every command has `--help`, which ends with examples. Every command
except `completion` has `--json` for scripts: it prints one JSON object on standard output (`search`: one per
query) and nothing else. Long commands show a progress bar on a terminal. Colours are used on terminals only,
and not if `NO_COLOR` is set. The extra `cli` adds rich (coloured tables, better progress bars) and shtab (shell
completion): `pip install ".[cli]"`.
"""


def generate() -> str:
    """Return the page."""
    return "\n".join(lines()) + "\n"


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    _, commands = make_commands()
    yield from (
        "<!-- Written by tools/cli_docs.py from the commands' own help. -->",
        "# The command line",
        "",
        *wrapped(INTRODUCTION),
        "",
    )
    yield from ("| command | what it does |", "| --- | --- |")
    for name, command in commands.by_name.items():
        yield f"| [`pcpq {name}`](#pcpq-{name}) | {command.summary} |"
    for name, command in commands.by_name.items():
        yield from section(name, command)
    yield from ("", "## File formats", "", "Formats of vectors that can be read:", "")
    yield from ("| format | suffixes | requires |", "| --- | --- | --- |")
    for name, suffixes in FORMATS.items():
        need = NEED.get(name)
        extra = f"{need} (extra `{EXTRAS[need]}`)" if need else ""
        yield f"| {name} | {' '.join(f'`{suffix}`' for suffix in suffixes)} | {extra} |"
    yield from ("", f"`pcpq export` writes {', '.join(WRITTEN_FORMATS)}.")
    yield from (f"`pcpq search` writes {', '.join(RESULT_FORMATS)}.", "", "## Exit codes", "")
    yield from ("| code | meaning |", "| --- | --- |")
    for code, meaning in EXIT_CODES.items():
        yield f"| {code} | {meaning} |"


def section(name: str, command: Parser) -> Iterator[str]:
    """Yield the lines of the section about one command."""
    actions = [action for action in command._actions if action.dest != "help"]
    positional = [action for action in actions if not action.option_strings]
    names = " ".join(["pcpq", name, *map(in_usage, positional)])
    yield from ("", f"## pcpq {name}", "", *wrapped(command.about), "", f"`{names} [options]`", "")
    for action in actions:
        yield f"- `{shown(action)}`: {action.help}"
    yield from ("", "```sh", *command.examples, "```")


def wrapped(text: str) -> list[str]:
    """Return the lines of a wrapped paragraph."""
    return textwrap.wrap(" ".join(text.split()), 115, break_long_words=False, break_on_hyphens=False)


def in_usage(action: argparse.Action) -> str:
    """Return a positional argument as text for the usage line."""
    if action.nargs == "*":
        return f"[{action.metavar} ...]"
    return f"[{action.metavar}]" if action.nargs == "?" else str(action.metavar)


def shown(action: argparse.Action) -> str:
    """Return an option with its value as text."""
    value = "" if action.nargs == 0 else action.metavar
    if value is None:
        value = "|".join(map(str, action.choices or ())) or action.dest.upper()
    more = " ..." if action.nargs in ("+", "*") else ""
    return " ".join(filter(None, [", ".join(action.option_strings), f"{value}{more}"]))


def main() -> None:
    """Write or check the page."""
    fresh = generate()
    if "--check" not in sys.argv:
        PAGE.write_text(fresh)
    elif not PAGE.exists() or PAGE.read_text() != fresh:
        sys.exit(f"{PAGE.name} is out of date: run `python tools/cli_docs.py` and commit it")


if __name__ == "__main__":
    main()
