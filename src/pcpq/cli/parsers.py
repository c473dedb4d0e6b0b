"""Commands, and the options that several of them share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from pcpq.cli.problems import FAILED

Run = Callable[[argparse.Namespace], None]


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line.

    Options cannot be abbreviated, so that a new option does not change the meaning of existing commands.
    """

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**settings, allow_abbrev=False)
        self.summary, self.about, self.examples = "", "", list[str]()

    def error(self, message: str) -> NoReturn:
        """Print a message and exit."""
        self.exit(FAILED, f"pcpq: {' '.join(message.split())}; see {self.prog} --help\n")


class Commands:
    """The commands of the program, by name."""

    def __init__(self, parser: Parser) -> None:
        self.by_name: dict[str, Parser] = {}
        self._parsers: Any = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(self, name: str, run: Run, about: str, examples: Sequence[str], more: str = "") -> Parser:
        """Add a command and return its parser; its help ends with examples."""
        sentence = f"{about[0].upper()}{about[1:]}."
        parser: Parser = self._parsers.add_parser(
            name,
            help=about,
            description=f"{sentence} {more}".strip(),
            epilog="\n".join(
                [f"example{'s' * (len(examples) > 1)}:", *(f"  {example}" for example in examples)]
            ),
        )
        parser.formatter_class = Formatter
        parser.set_defaults(run=run)
        parser.summary, parser.about, parser.examples = about, f"{sentence} {more}".strip(), list(examples)
        self.by_name[name] = parser
        return parser


class Formatter(argparse.RawDescriptionHelpFormatter):
    """A help formatter that wraps descriptions, and leaves examples unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example"):
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


def add_index(parser: Parser, about: str = "directory of the index") -> None:
    """Add the argument INDEX to a parser."""
    parser.add_argument("index", metavar="INDEX", help=about)


def add_json(parser: Parser) -> None:
    """Add the option --json to a parser."""
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def add_threads(parser: Parser) -> None:
    """Add the option --threads to a parser."""
    parser.add_argument("--threads", metavar="N", type=int, help="number of threads (default: all CPUs)")


def add_input(parser: Parser, what: str = "FILE") -> None:
    """Add the options that describe the format of an input file to a parser."""
    group = parser.add_argument_group(f"format of {what}")
    group.add_argument("--input-format", metavar="NAME", help="npy, jsonl, ... (default: by suffix)")
    group.add_argument(
        "--column",
        metavar="NAME",
        help="vectors: name of a column (parquet, Arrow), field (JSONL) or array (.npz); default: the only one",
    )
    group.add_argument(
        "--id-column",
        metavar="NAME",
        help='ids: name of the column, field or array (default: "id", if it exists)',
    )
    group.add_argument(
        "--part",
        metavar="NAME",
        help='dataset of an HDF5 file (default: "train" for vectors, "test" for queries)',
    )


def add_attributes(parser: Parser) -> None:
    """Add the option --attributes to a parser."""
    parser.add_argument(
        "--attributes",
        metavar="NAME,...",
        help="columns of FILE (parquet, Arrow, JSONL) to store as attributes (metadata), for search --where",
    )
