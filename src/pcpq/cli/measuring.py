"""The command `pcpq tune`, and functions shared by commands that measure recall."""

from __future__ import annotations

import argparse
from typing import Any

from pcpq.cli.parsers import Commands, Parser, add_index, add_input, add_json, add_threads
from pcpq.cli.terminal import print_result, print_table
from pcpq.index import Index, state_of
from pcpq.search.recall_curve import RecallCurve
from pcpq.util.progress import progress_bar

TARGETS = (0.8, 0.9, 0.95, 0.99)


def add_tune(commands: Commands) -> None:
    """Add the command `pcpq tune INDEX [QUERIES]`."""
    parser = commands.add(
        "tune",
        tune,
        "measure recall, so that searches reach their target",
        ["pcpq tune words.pcpq", "pcpq tune words.pcpq queries.npy --vectors words.txt"],
        "Stores the measurement in the index. Give queries if yours are unlike the vectors.",
    )
    add_index(parser)
    add_exam(parser)
    parser.add_argument(
        "-k", metavar="N", type=int, default=10, help="results per query in the printed table (default: 10)"
    )
    add_threads(parser)
    add_json(parser)
    add_input(parser, "QUERIES")


def add_exam(parser: Parser) -> None:
    """Add the arguments QUERIES and --vectors to a parser."""
    parser.add_argument(
        "queries", metavar="QUERIES", nargs="?", help="file of queries (default: some vectors of the index)"
    )
    parser.add_argument(
        "--vectors",
        metavar="FILE",
        help="file that the index was built from, for exact answers (default: the kept vectors)",
    )


def tune(options: argparse.Namespace) -> None:
    """Measure the recall curve, commit it and print it."""
    import pcpq
    from pcpq.cli.exact import CODES_ONLY, make_exam
    from pcpq.io.formats import read_vectors

    queries = queries_of(options)
    with pcpq.open(options.index, mode="a") as index, progress_bar(None) as bar:
        bar.say("measuring recall")
        if options.vectors is None and index.keep is None:
            raise ValueError(f"{CODES_ONLY}, together with QUERIES")
        if options.vectors is None or queries is None:
            if options.vectors is not None:
                raise ValueError("--vectors needs QUERIES")
            curve = index.tune(queries, threads=options.threads)
        else:
            exam = make_exam(index, queries, read_vectors(options.vectors))
            curve = index.tune(exam.queries, truth=as_ids(index, exam.truth.ids), threads=options.threads)
        index.commit()
    found = {"index": options.index, "queries": curve.queries, "measured": curve.kind, "k": options.k}
    print_result(
        options.json, found | {"choices": choices(curve, options.k)}, lambda: print_choices(curve, options.k)
    )


def queries_of(options: argparse.Namespace) -> Any:
    """Return the (n, d) queries named by the options, or None."""
    from pcpq.cli.inputs import queries_in

    if options.queries is None:
        return None
    with queries_in(options, options.queries) as file:
        return file.array()


def as_ids(index: Index, numbers: Any) -> Any:
    """Return the ids that belong to internal numbers."""
    state = state_of(index)
    return state.snapshot.strings(numbers) if state.kind == "str" else numbers


def curve_of(index: Index) -> RecallCurve | None:
    """Return the recall curve of an index, or None if it was not measured."""
    return state_of(index).snapshot.recall


def choices(curve: RecallCurve, k: int) -> list[dict[str, Any]]:
    """Return the probes, rerank and expected recall that are chosen for each target recall."""
    found = []
    for target in TARGETS:
        choice = curve.choose(k, target)
        found.append({"target_recall": target, **choice._asdict(), "reached": choice.recall >= target})
    return found


def print_choices(curve: RecallCurve, k: int) -> None:
    """Print the probes, rerank and expected recall of each target recall as a table."""
    rows = [
        (
            f"{row['target_recall']:g}",
            f"{row['probes']:,}",
            f"{row['rerank']:,}",
            f"{row['recall']:.3f}" + ("" if row["reached"] else ", out of reach"),
        )
        for row in choices(curve, k)
    ]
    title = f"k={k}, measured with {curve.queries:,} queries ({curve.kind})"
    print_table(("target recall", "probes", "rerank", "expected recall"), rows, title=title)
