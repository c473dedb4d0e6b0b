"""`pcpq paper`, `pcpq report`, `pcpq demo`, `pcpq completion`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from pcpq.cli.parsers import Commands, Parser, add_json
from pcpq.cli.terminal import tell

SHELLS = ("bash", "zsh", "tcsh")
FOLDERS, FILES = ("INDEX", "DIR", "FOLDER"), ("FILE", "QUERIES", "OUT")


def add_paper(commands: Commands) -> None:
    """`pcpq paper`."""
    from pcpq.experiments.paper.run import PARTS

    parser = commands.add(
        "paper",
        paper,
        "run the experiments of the paper, and additional ones",
        ["pcpq paper --data ~/ann-benchmarks/data --dataset glove --bits 4 --out results"],
    )
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        type=Path,
        default=os.environ.get("PCPQ_DATA"),
        help="folder of data sets: NAME.hdf5 (ann-benchmarks), or NAME_base.npy and NAME_query.npy (default: "
        "$PCPQ_DATA, or the bundled word vectors if it is not set)",
    )
    parser.add_argument(
        "--dataset", metavar="NAME", help="glove, lastfm, words, another data set in FOLDER, or FILE.hdf5"
    )
    parser.add_argument(
        "--bits",
        type=int,
        choices=(4, 8),
        default=4,
        help="bits per codeword: 16 or 256 codewords per section (default: 4)",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("paper"), help="directory for results (default: paper)"
    )
    parser.add_argument(
        "--only",
        nargs="*",
        choices=PARTS,
        default=list(PARTS),
        help="experiments to run; the six methods always run",
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of all random choices (default: 0)"
    )
    parser.add_argument("--threads", metavar="N", type=int, help="number of threads (default: all CPUs)")
    add_json(parser)


def paper(options: argparse.Namespace) -> None:
    """Run, save, show, draw."""
    from pcpq.experiments.paper.figures import draw_all
    from pcpq.experiments.paper.run import Run, save
    from pcpq.experiments.paper.sets import load_set
    from pcpq.experiments.paper.summary import summary

    folder = None if options.dataset == "words" or options.data is None else Path(options.data)
    run = Run(
        load_set(folder, options.dataset), options.bits, options.seed, options.threads, tuple(options.only)
    )
    result = run.go()
    path = save(result, options.out)
    if not options.json:  # before the drawing, which takes a while
        print(summary(result), flush=True)
    figures = draw_all([result], options.out / "figures")
    tell(
        options.json,
        {"out": path, "figures": figures},
        lambda: print(
            f"\nwrote {path} and {len(figures)} figures; show them in a browser: pcpq report {options.out}"
        ),
    )


def add_report(commands: Commands) -> None:
    """`pcpq report DIR`."""
    parser = commands.add(
        "report",
        report,
        "make an HTML page of results, for a browser",
        ["pcpq report paper"],
    )
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="directory with JSON results of `pcpq paper` and of benchmarks"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="file to write (default: DIR/report.html)")
    add_json(parser)


def report(options: argparse.Namespace) -> None:
    """Write the page."""
    from pcpq.experiments.report import write_report

    page = write_report(options.folder, options.out)
    tell(options.json, {"out": page}, lambda: print(page))


def add_demo(commands: Commands) -> None:
    """`pcpq demo [WORD ...]`."""
    from pcpq.cli.demo import add_words, show

    parser = commands.add(
        "demo",
        lambda options: show(options.words, options.json),
        "index 20,000 words, and show neighbours, recall, speed and size",
        ["pcpq demo", "pcpq demo violin jupiter"],
    )
    add_words(parser)
    add_json(parser)


def add_completion(commands: Commands, everything: Callable[[], Parser]) -> None:
    """`pcpq completion SHELL`."""
    parser = commands.add(
        "completion",
        lambda options: print(completion(everything(), options.shell)),
        "print a script for shell completion",
        [
            "pcpq completion bash > ~/.local/share/bash-completion/completions/pcpq",
            "pcpq completion zsh > ~/.zfunc/_pcpq",
        ],
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"one of {', '.join(SHELLS)}")


def completion(parser: Parser, shell: str) -> str:
    """The script, by shtab."""
    import shtab

    for command in (parser, *subparsers(parser)):
        for action in command._actions:
            if action.metavar in FOLDERS:
                vars(action)["complete"] = shtab.DIRECTORY
            elif action.metavar in FILES:
                vars(action)["complete"] = shtab.FILE
    return str(shtab.complete(parser, shell))


def subparsers(parser: Parser) -> list[Parser]:
    """Of all commands."""
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [command for action in actions for command in action.choices.values()]
