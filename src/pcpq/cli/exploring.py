"""The command `pcpq explore`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pcpq.cli.parsers import Commands, add_index, add_input, add_json
from pcpq.cli.terminal import print_result
from pcpq.index import Index, state_of
from pcpq.search.recall_curve import FEW
from pcpq.util.progress import progress_bar
from pcpq.util.validation import whole_number


def add_explore(commands: Commands) -> None:
    """Add the command `pcpq explore INDEX`."""
    parser = commands.add(
        "explore",
        explore,
        "look into an index in a browser: search, recall, lists and a map",
        ["pcpq explore words.pcpq", "pcpq explore words.pcpq --queries queries.npy --browser"],
        "Prints the address of a page that only this machine can open, and serves it until Ctrl-C. The index "
        "is opened for reading.",
    )
    add_index(parser)
    parser.add_argument(
        "--queries", metavar="FILE", help="vectors to search with, in any format that build reads"
    )
    parser.add_argument(
        "--port", metavar="N", type=int, default=0, help="port of the page (default: a free one)"
    )
    parser.add_argument("--browser", action="store_true", help="open the page in a browser")
    add_json(parser)
    add_input(parser)


def explore(options: argparse.Namespace) -> None:
    """Open an index and serve its page until Ctrl-C."""
    import pcpq
    from pcpq.explore import View
    from pcpq.explore.server import serve

    whole_number("port", options.port, 0, 65535)
    with pcpq.open(options.index) as index:
        view = View(index, Path(options.index).absolute().name, queries_of(options))
        measure_once(index)

        def ready(address: str) -> None:
            found = {"index": options.index, "address": address}
            print_result(options.json, found, lambda: print(f"{address}\nCtrl-C ends it."))
            flush_and_open(address, options.browser)

        serve(view, options.port, ready)


def measure_once(index: Index) -> None:
    """Measure recall, in memory only, if it was never measured and can be."""
    snapshot = state_of(index).snapshot
    if snapshot.recall is None and len(snapshot) > FEW and index.keep is not None:
        with progress_bar(None) as bar:
            bar.say("measuring recall")
            index.tune()


def queries_of(options: argparse.Namespace) -> Any:
    """Return the queries that the options name, or None."""
    from pcpq.cli.inputs import queries_in
    from pcpq.explore import Queries

    if options.queries is None:
        return None
    with queries_in(options, options.queries) as file:
        return Queries(Path(options.queries).name, file.array(), file.ids())


def flush_and_open(address: str, browser: bool) -> None:
    """Flush the address, which programs wait for, and open it in a browser if that is wanted."""
    import sys
    import webbrowser

    sys.stdout.flush()
    if browser and not webbrowser.open(address):
        print("pcpq: found no browser: open the address yourself", file=sys.stderr)
