"""The commands `pcpq info`, `pcpq verify`, `pcpq backup` and `pcpq export`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pcpq.cli.measuring import choices, curve_of, print_choices
from pcpq.cli.parsers import Commands, add_index, add_json
from pcpq.cli.problems import Wrong
from pcpq.cli.terminal import print_facts, print_result, print_table, size
from pcpq.index import state_of
from pcpq.io.arrays import Float32Array
from pcpq.util.batches import slices
from pcpq.util.progress import progress_bar

FLOAT = 4  # bytes of a float32
# Values that are read in one step: kept vectors, and decoded ones, for which each step unpacks all codes.
NUMBERS_AT_ONCE, NUMBERS_DECODED = 1 << 21, 1 << 26


def add_info(commands: Commands) -> None:
    """Add the command `pcpq info INDEX`."""
    parser = commands.add(
        "info",
        info,
        "show the size, lists, bytes, recall and settings of an index",
        ["pcpq info words.pcpq"],
    )
    add_index(parser)
    add_json(parser)


def info(options: argparse.Namespace) -> None:
    """Print statistics, settings and the recall curve of an index."""
    import pcpq

    with pcpq.open(options.index) as index:
        stats, settings, curve = index.stats(), index.config.to_json(), curve_of(index)
        kind, quantizer = state_of(index).kind, index.quantizer
    on_disk = sum(path.stat().st_size for path in Path(options.index).iterdir() if path.is_file())
    found = {
        "index": options.index,
        "ids": kind,
        **stats,
        "bytes_on_disk": on_disk,
        "settings": settings,
        "recall": None if curve is None else {"k": 10, "measured": curve.kind, "choices": choices(curve, 10)},
    }

    def show() -> None:
        parts = stats["bytes_per_vector"]
        total, uncompressed = sum(parts.values()), FLOAT * stats["dimensions"]
        facts = {
            "vectors": f"{stats['vectors']:,}" + (f", {stats['removed']:,} removed" * (stats["removed"] > 0)),
            "dimensions": f"{stats['dimensions']:,}",
            "metric": settings["metric"],
            "ids": "strings" if kind == "str" else "integers",
            "lists": f"{stats['lists']:,}, the largest has {stats['largest_list']:,}",
            "segments": f"{stats['segments']:,}",
            "on disk": size(on_disk),
            "drift": f"{stats['drift']:.2f}" + (", refit is recommended" if stats["drift"] > 1.2 else ""),
        }
        facts |= {
            name: value
            for name, value in (settings | {"quantizer": quantizer}).items()
            if name not in ("metric", "n_lists") and value is not None
        }
        if stats.get("chosen"):
            facts["chosen"] = stats["chosen"]
        print_facts(facts, title=options.index)
        print()
        rows = [(name, f"{part:.1f}") for name, part in parts.items() if part]
        rows += [("total", f"{total:.1f}"), ("as float32", f"{uncompressed:.1f}")]
        print_table(("part", "bytes per vector"), rows)
        if curve is not None:
            print()
            print_choices(curve, 10)

    print_result(options.json, found, show)


def add_verify(commands: Commands) -> None:
    """Add the command `pcpq verify INDEX`."""
    parser = commands.add(
        "verify",
        verify,
        "check all files of an index against their checksums",
        ["pcpq verify words.pcpq"],
        "Prints the name of a damaged file and ends with exit code 1.",
    )
    add_index(parser)
    add_json(parser)


def verify(options: argparse.Namespace) -> None:
    """Check the checksums of all files of an index."""
    import pcpq

    try:
        with pcpq.open(options.index) as index:
            index.verify()
            count = len(index)
    except pcpq.FormatError as error:
        if not Path(options.index).is_dir():  # no index that could be damaged
            raise
        if options.json:
            print_result(True, {"index": options.index, "ok": False, "problem": str(error)}, lambda: None)
        raise Wrong(str(error)) from error
    print_result(
        options.json,
        {"index": options.index, "ok": True, "vectors": count},
        lambda: print(f"{options.index}: {count:,} vectors, no damage found"),
    )


def add_backup(commands: Commands) -> None:
    """Add the command `pcpq backup INDEX OUT`."""
    parser = commands.add(
        "backup",
        backup,
        "copy the last commit of an index to a new directory",
        ["pcpq backup words.pcpq words-backup.pcpq"],
        "Safe while another process writes to the index; cp is not. Uses hard links where the file system "
        "supports them, which takes no time and no space, and copies files otherwise.",
    )
    add_index(parser)
    parser.add_argument("out", metavar="OUT", help="directory that does not exist or is empty")
    parser.add_argument("--copy", action="store_true", help="copy files even if they could be linked")
    add_json(parser)


def backup(options: argparse.Namespace) -> None:
    """Copy the newest generation of an index."""
    import pcpq

    with pcpq.open(options.index) as index:
        index.backup(options.out, copy=options.copy)
        count = len(index)
    found = {"index": options.index, "out": options.out, "vectors": count}
    print_result(options.json, found, lambda: print(f"{options.out}: {count:,} vectors"))


def add_export(commands: Commands) -> None:
    """Add the command `pcpq export INDEX OUT`."""
    parser = commands.add(
        "export",
        export,
        "write the vectors of an index to a file",
        ["pcpq export words.pcpq words.parquet", "pcpq export words.pcpq words.npy"],
        "Writes kept vectors, or decoded codes if no vectors are kept, in the order of ids. Parquet, JSONL and "
        "text files contain ids; .npy, .fvecs and .fbin files do not. Attributes are not written.",
    )
    add_index(parser)
    parser.add_argument("out", metavar="OUT", help="file to write")
    parser.add_argument(
        "--format", metavar="NAME", help="npy, fvecs, fbin, parquet, jsonl or text (default: by suffix)"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_json(parser)


def export(options: argparse.Namespace) -> None:
    """Write the vectors of an index to a file, in the order of ids."""
    import pcpq
    from pcpq.io.formats import write_vectors
    from pcpq.io.formats.writing import WITH_IDS, written_format

    if Path(options.out).exists() and not options.force:
        raise FileExistsError(f"{options.out} exists already: --force replaces it")
    format = written_format(options.out, options.format)
    with pcpq.open(options.index) as index, progress_bar(len(index), "vectors") as bar:
        bar.say("writing")
        snapshot = state_of(index).snapshot
        parts = [part.segment.checked_ids[part.rows_left()] for part in snapshot.parts]
        numbers = np.concatenate([np.empty(0, np.int64), *parts])
        order = np.argsort(numbers)
        numbers = numbers[order]
        ids = snapshot.strings(numbers).tolist() if snapshot.has_string_ids else numbers
        consecutive = not snapshot.has_string_ids and bool((numbers == np.arange(len(numbers))).all())
        with_ids = format in WITH_IDS
        batches = vectors_in_order(snapshot, order, bar)
        count = write_vectors(options.out, batches, ids if with_ids else None, format=options.format)
    found = {"out": options.out, "format": format, "vectors": count, "with_ids": with_ids}
    note = "" if with_ids or consecutive else f", without ids: {format} files cannot contain them"
    print_result(options.json, found, lambda: print(f"{options.out}: {count:,} vectors{note}"))


def vectors_in_order(snapshot: Any, order: Any, bar: Any) -> Iterator[Float32Array]:
    """Yield the vectors of a snapshot in the given order, as (n_i, d) batches."""
    from pcpq.store.refit import LiveVectors

    vectors = LiveVectors(snapshot)
    numbers = NUMBERS_DECODED if snapshot.trained.keep is None else NUMBERS_AT_ONCE
    for some in slices(len(order), max(1, numbers // vectors.shape[1])):
        yield vectors[order[some]]
        bar.reach(some.stop, len(order))
