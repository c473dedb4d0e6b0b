"""The command `pcpq search`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pcpq.cli.parsers import Commands, add_index, add_input, add_threads
from pcpq.cli.terminal import print_result
from pcpq.io.formats import RESULT_FORMATS
from pcpq.util.batches import slices
from pcpq.util.progress import progress_bar

# Number of queries between two updates of the progress bar.
QUERIES_AT_ONCE = 10_000
SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


class Found(NamedTuple):
    """Results of a search, and the names of the queries."""

    ids: Any  # (n, k)
    scores: Any  # (n, k)
    queries: Sequence[Any] | None
    attributes: Any = None  # an Arrow table with n k rows, for --select


def add_search(commands: Commands) -> None:
    """Add the command `pcpq search INDEX FILE`."""
    parser = commands.add(
        "search",
        search,
        "find the nearest vectors in an index",
        [
            "pcpq search words.pcpq queries.npy -k 10 --out nearest.csv",
            "pcpq search words.pcpq --word king --word queen -k 5",
            "pcpq search pages.pcpq queries.npy --select title,year",
            "pcpq search pages.pcpq queries.jsonl --where \"lang = 'en'\" --target-recall 0.99 --json",
        ],
        "Scores are inner products, cosines or squared distances, best first.",
    )
    add_index(parser)
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="queries, in any format that build reads; -: JSONL on standard input",
    )
    parser.add_argument(
        "--word",
        "--id",
        metavar="ID",
        action="append",
        dest="ids",
        help="search with the vector of this id, without the id itself; can be repeated",
    )
    parser.add_argument("-k", metavar="N", type=int, default=10, help="results per query (default: 10)")
    parser.add_argument(
        "--target-recall", metavar="SHARE", type=float, help="share of the true results to find (default: 0.95)"
    )
    parser.add_argument(
        "--probes", metavar="N", type=int, help="number of lists to scan, instead of --target-recall"
    )
    parser.add_argument("--rerank", metavar="N", type=int, help="number of candidates to rerank")
    parser.add_argument(
        "--exact", action="store_true", help="compare all vectors instead of probing lists (brute force)"
    )
    parser.add_argument("--where", metavar="SQL", help='condition on attributes, such as "year > 2020"')
    parser.add_argument(
        "--select", metavar="NAMES", help='attributes to show with results, separated by commas; "*": all'
    )
    parser.add_argument(
        "--format",
        choices=RESULT_FORMATS,
        help="format of the results (default: by suffix of OUT, otherwise table)",
    )
    parser.add_argument("--out", metavar="OUT", help="file to write (default: standard output)")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.add_argument("--ray", metavar="ADDRESS", help="search on a Ray cluster: its address, auto, or local")
    parser.add_argument(
        "--shards", metavar="N", type=int, help="with --ray: number of shards (default: one per node)"
    )
    parser.add_argument(
        "--replicas", metavar="N", type=int, default=1, help="with --ray: replicas per shard (default: 1)"
    )
    add_threads(parser)
    parser.add_argument("--json", action="store_true", help="same as --format jsonl: one line per query")
    add_input(parser)


def search(options: argparse.Namespace) -> None:
    """Open an index, search it and write the results."""
    from pcpq.io.formats import write_results

    if options.file is None and options.ids is None:
        raise ValueError("there is nothing to search by: give FILE or --word")
    if options.file is not None and options.ids is not None:
        raise ValueError("give FILE or --word, not both")
    if options.select is not None and options.ray is not None:
        raise ValueError("--select is for an index that is opened here, not for --ray")
    format = format_of_results(options)
    if options.out is not None and Path(options.out).is_file() and not options.force:
        raise FileExistsError(f"{options.out} exists already: --force replaces it")
    if format == "parquet" and options.out is None and sys.stdout.isatty():
        raise ValueError("parquet is not printed on a terminal: give --out FILE")
    start = time.perf_counter()
    with opened(options) as index:
        found = by_ids(index, options) if options.file is None else by_vectors(index, options)
    seconds = time.perf_counter() - start
    if options.out is None:
        sys.stdout.flush()
    out = sys.stdout.buffer if options.out is None else options.out
    write_results(out, found.ids, found.scores, format, queries=found.queries, attributes=found.attributes)
    if options.out is None:
        return
    count = len(found.ids)
    summary = {"out": options.out, "queries": count, "k": options.k, "seconds": seconds}
    print_result(
        options.json,
        summary,
        lambda: print(f"{options.out}: {options.k:,} results for each of {count:,} queries, {seconds:.1f} s"),
    )


def opened(options: argparse.Namespace) -> Any:
    """Return the opened index, local or on a Ray cluster."""
    if options.ray is None:
        import pcpq

        return pcpq.open(options.index)
    from pcpq.integrations.ray import terminal

    return terminal.opened(options.index, options.ray, options.shards, options.replicas)


def format_of_results(options: argparse.Namespace) -> str:
    """Return the format of results, by options or by the suffix of the output file."""
    if options.json and options.format not in (None, "jsonl"):
        raise ValueError(f"--json and --format {options.format}: give one of them")
    if options.format is not None:
        return str(options.format)
    if options.json:
        return "jsonl"
    if options.out is None:
        return "table"
    suffix = Path(options.out).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{options.out}: has none of the suffixes {', '.join(SUFFIXES)}; give --format")
    return SUFFIXES[suffix]


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of Index.search."""
    names = ["k", "target_recall", "probes", "rerank", "exact", "where"]
    if options.ray is None:  # actors choose their number of threads
        names.append("threads")
    found = {name: getattr(options, name) for name in names}
    return found if options.select is None else found | {"select": names_in(options.select)}


def names_in(text: str) -> str | list[str]:
    """Return the names of columns in an option; "*" stands for all."""
    return text if text.strip() == "*" else [name.strip() for name in text.split(",") if name.strip()]


def joined(parts: Sequence[Any]) -> Any:
    """Return the attributes of several results as one table; None if there are none."""
    if parts[0].attributes is None:
        return None
    import pyarrow

    return pyarrow.concat_tables([part.attributes for part in parts])


def by_vectors(index: Any, options: argparse.Namespace) -> Found:
    """Search with all queries of a file."""
    import numpy as np

    from pcpq.cli.inputs import queries_in

    with queries_in(options, options.file) as file:
        queries, names = file.array(), file.ids()
    parts = []
    with progress_bar(len(queries), "queries") as bar:
        bar.say("searching")
        for some in slices(len(queries), QUERIES_AT_ONCE):
            parts.append(index.search(queries[some], **settings(options)))
            bar.reach(some.stop, len(queries))
    ids, scores = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "scores"))
    return Found(ids, scores, names, joined(parts))


def by_ids(index: Any, options: argparse.Namespace) -> Found:
    """Search with the vectors of some ids; an id is not a result of its own query."""
    import numpy as np

    from pcpq.cli.inputs import as_ids_of

    ids = as_ids_of(index, options.ids)
    parts = [
        index.search(index.reconstruct(ids[i : i + 1])[0], exclude=ids[i : i + 1], **settings(options))
        for i in range(len(ids))
    ]
    found, scores = (np.array([getattr(part, name) for part in parts]) for name in ("ids", "scores"))
    return Found(found, scores, ids, joined(parts))
