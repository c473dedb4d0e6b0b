"""The command line: `pcpq verify`, `pcpq paper`, `pcpq report`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pcpq.opening import open_index


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all is well, 2 after an error, which is one line on stderr."""
    parser = argparse.ArgumentParser(prog="pcpq", description="Vector search in little memory.")
    commands = parser.add_subparsers(dest="command", required=True)
    add_verify(commands)
    add_paper(commands)
    add_report(commands)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except ModuleNotFoundError as error:
        print(f'pcpq: {error.name} is missing: pip install "pcpq[paper]"', file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"pcpq: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pcpq: stopped", file=sys.stderr)
        return 130
    return 0


Commands = argparse._SubParsersAction  # argparse has no other name for it


def add_command(
    commands: Commands[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    about: str,
    example: str,
) -> argparse.ArgumentParser:
    """A command, with an example at the end of its help."""
    parser = commands.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        epilog=f"example: {example}",
    )
    parser.set_defaults(run=run)
    return parser


def add_verify(commands: Commands[argparse.ArgumentParser]) -> None:
    """`pcpq verify INDEX`."""
    parser = add_command(
        commands,
        "verify",
        verify,
        "check every byte of an index against its checksums",
        "pcpq verify words.pcpq",
    )
    parser.add_argument("index", metavar="INDEX", help="the directory of the index")


def verify(options: argparse.Namespace) -> None:
    """Read it all."""
    with open_index(options.index) as index:
        index.verify()
        print(f"{options.index}: {len(index):,} vectors, all as they were written")


def add_paper(commands: Commands[argparse.ArgumentParser]) -> None:
    """`pcpq paper`."""
    from pcpq.paper.run import PARTS

    parser = add_command(
        commands,
        "paper",
        paper,
        "run the experiments of the paper, and some that it could not run",
        "pcpq paper --data ~/ann-benchmarks/data --dataset glove --bits 4 --out results",
    )
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        type=Path,
        default=os.environ.get("PCPQ_DATA"),
        help="where sets are: NAME.hdf5 of ann-benchmarks, or NAME_base.npy and NAME_query.npy (default: "
        "$PCPQ_DATA; without it, the words that come with pcpq)",
    )
    parser.add_argument(
        "--dataset", metavar="NAME", help="glove, lastfm, words, another name in FOLDER, or a file FILE.hdf5"
    )
    parser.add_argument("--bits", type=int, choices=(4, 8), default=4, help="16 or 256 centers (default: 4)")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("paper"), help="default: paper")
    parser.add_argument(
        "--only", nargs="*", choices=PARTS, default=list(PARTS), help="parts to run; the six methods always are"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="default: every CPU")


def paper(options: argparse.Namespace) -> None:
    """Run, save, show, draw."""
    from pcpq.paper.figures import draw_all
    from pcpq.paper.run import Run, save
    from pcpq.paper.sets import load_set
    from pcpq.paper.summary import summary

    folder = None if options.dataset == "words" or options.data is None else Path(options.data)
    run = Run(
        load_set(folder, options.dataset), options.bits, options.seed, options.threads, tuple(options.only)
    )
    result = run.go()
    path = save(result, options.out)
    print(summary(result))
    figures = draw_all([result], options.out / "figures")
    print(f"\n{path} and {len(figures)} figures beside it; a page of them: pcpq report {options.out}")


def add_report(commands: Commands[argparse.ArgumentParser]) -> None:
    """`pcpq report DIR`."""
    parser = add_command(
        commands,
        "report",
        report,
        "make one page, to be read in a browser, of results",
        "pcpq report paper",
    )
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="where `pcpq paper` and benchmarks left their JSON"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="default: DIR/report.html")


def report(options: argparse.Namespace) -> None:
    """Write the page."""
    from pcpq.report import write_report

    print(write_report(options.folder, options.out))


if __name__ == "__main__":
    sys.exit(main())
