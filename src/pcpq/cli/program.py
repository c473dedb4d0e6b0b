"""The entry point of the command line, and the list of all commands."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from pcpq.cli.benching import add_bench
from pcpq.cli.building import add_build
from pcpq.cli.changing import add_add, add_remove
from pcpq.cli.doctor import add_doctor
from pcpq.cli.exploring import add_explore
from pcpq.cli.extras import add_completion, add_demo, add_paper, add_report
from pcpq.cli.looking import add_backup, add_export, add_info, add_verify
from pcpq.cli.measuring import add_tune
from pcpq.cli.parsers import Commands, Parser
from pcpq.cli.problems import EXIT_CODES, EXPECTED, FAILED, FINE, FOUND_WRONG, STOPPED, Wrong, in_one_line
from pcpq.cli.searching import add_search
from pcpq.cli.terminal import stop_writing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, one of EXIT_CODES.

    An expected error is printed as one line on standard error.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = show_warning
            run(arguments)
            sys.stdout.flush()
    except SystemExit as end:  # the parser has printed its message
        return end.code if isinstance(end.code, int) else FINE
    except Wrong as found:
        return failed(found, FOUND_WRONG)
    except BrokenPipeError:  # the reader closed the pipe
        stop_writing()
        return FINE
    except EXPECTED as error:
        return failed(error, FAILED)
    except KeyboardInterrupt:
        print("pcpq: stopped", file=sys.stderr)
        return STOPPED
    return FINE


def run(arguments: Sequence[str] | None) -> None:
    """Parse arguments and run the command."""
    options: argparse.Namespace = make_parser().parse_args(arguments)
    options.run(options)


def make_parser() -> Parser:
    """Return the parser of the program with all commands."""
    return make_commands()[0]


def make_commands() -> tuple[Parser, Commands]:
    """Return the parser of the program, and all commands by name."""
    from pcpq import __version__

    parser = Parser(
        prog="pcpq",
        description="Build and search vector indexes.",
        epilog="exit codes:\n"
        + "".join(f"  {code:<4}{meaning}\n" for code, meaning in EXIT_CODES.items())
        + "\npcpq COMMAND --help describes a command. Examples:\n"
        "  pcpq build vectors.npy vectors.pcpq --metric cosine\n"
        "  pcpq search vectors.pcpq queries.npy -k 10",
    )
    parser.add_argument("--version", action="version", version=f"pcpq {__version__}")
    commands = Commands(parser)
    for add in (
        add_build,
        add_search,
        add_info,
        add_explore,
        add_tune,
        add_add,
        add_remove,
        add_export,
        add_verify,
        add_backup,
        add_bench,
        add_paper,
        add_report,
        add_demo,
        add_doctor,
    ):
        add(commands)
    add_completion(commands, make_parser)
    return parser, commands


def failed(error: BaseException, code: int) -> int:
    """Print an error as one line, and return the exit code."""
    print(f"pcpq: {in_one_line(error)}", file=sys.stderr)
    return code


def show_warning(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
    """Print a warning as one line, without the line of code."""
    print(f"pcpq: {' '.join(str(message).split())}", file=sys.stderr)
