"""The commands `pcpq add` and `pcpq remove`."""

from __future__ import annotations

import argparse
from typing import Any

from pcpq.cli.parsers import Commands, add_attributes, add_index, add_input, add_json, add_threads
from pcpq.cli.terminal import print_result
from pcpq.index import state_of
from pcpq.util.progress import counter, progress_bar


def add_add(commands: Commands) -> None:
    """Add the command `pcpq add INDEX FILE`."""
    parser = commands.add(
        "add",
        add,
        "add the vectors in a file to an index",
        ["pcpq add words.pcpq more.jsonl", "pcpq add pages.pcpq new.parquet --replace --attributes lang,year"],
        "Either all or none of them are added. Searches continue meanwhile.",
    )
    add_index(parser)
    parser.add_argument(
        "file", metavar="FILE", help="file of vectors, with ids if the index has ids of its own"
    )
    parser.add_argument("--replace", action="store_true", help="update: replace vectors that have the same ids")
    add_attributes(parser)
    add_threads(parser)
    add_json(parser)
    add_input(parser)


def add(options: argparse.Namespace) -> None:
    """Add the vectors of a file to an index and commit."""
    import pcpq
    from pcpq.cli.inputs import attributes_in, vectors_in

    file = vectors_in(options, options.file)
    with pcpq.open(options.index, mode="a") as index, progress_bar(None, "vectors") as bar:
        before, ids = len(index), file.ids()
        if options.replace and ids is None:
            raise ValueError(f"{file.path} has no ids, which --replace needs")
        insert = index.upsert if options.replace else index.add
        try:
            done = insert(
                file.vectors,
                ids,
                attributes=attributes_in(file, options.attributes or known_attributes(index, file)),
                threads=options.threads,
                progress=counter(bar, file.rows, "adding vectors", "writing"),
            )
        except ValueError as error:  # name the option instead of the method
            raise ValueError(str(error).replace("upsert replaces it", "--replace replaces it")) from error
        index.commit()
        after = len(index)
    replaced = before + len(done) - after
    found = {"index": options.index, "added": after - before, "replaced": replaced, "vectors": after}
    summary = f"{after - before:,} added" + (f", {replaced:,} replaced" if options.replace else "")
    print_result(options.json, found, lambda: print(f"{options.index}: {summary}, {after:,} vectors now"))


def known_attributes(index: Any, file: Any) -> str | None:
    """Return the names of attributes that both the index and the file have, the default of --attributes."""
    from pcpq.cli.inputs import columns_of
    from pcpq.io.formats.files import parsing

    parts = state_of(index).snapshot.parts
    tables = [part.segment.attributes.table for part in parts if part.segment.attributes is not None]
    if not tables:
        return None
    with parsing(file.path):
        columns = columns_of(file)
    return ",".join(name for name in tables[0].column_names if name in columns) or None


def add_remove(commands: Commands) -> None:
    """Add the command `pcpq remove INDEX [FILE]`."""
    parser = commands.add(
        "remove",
        remove,
        "delete vectors from an index by their ids or by a condition",
        [
            "pcpq remove words.pcpq --id king --id queen",
            "pcpq remove words.pcpq gone.txt",
            'pcpq remove pages.pcpq --where "year < 2000"',
        ],
        "Ids that do not exist are ignored.",
    )
    add_index(parser)
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="ids: text file with one per line, .npy array, or file of vectors with ids; -: standard input",
    )
    parser.add_argument("--id", metavar="ID", action="append", default=[], help="one id; can be repeated")
    parser.add_argument("--where", metavar="SQL", help="condition on attributes, instead of ids")
    parser.add_argument(
        "--id-column", metavar="NAME", help='ids: name of the column, field or array in FILE (default: "id")'
    )
    add_json(parser)


def remove(options: argparse.Namespace) -> None:
    """Remove vectors from an index by their ids or by a condition, and commit."""
    import pcpq
    from pcpq.cli.inputs import as_ids_of, ids_in

    by_ids = options.file is not None or bool(options.id)
    if by_ids and options.where is not None:
        raise ValueError("give ids (FILE or --id) or --where, not both")
    if options.where is not None:
        remove_where(options)
        return
    if not by_ids:
        raise ValueError("no ids to remove: give FILE, --id or --where")
    given = [] if options.file is None else list(ids_in(options, options.file))
    with pcpq.open(options.index, mode="a") as index:
        ids = as_ids_of(index, [*options.id, *given])
        removed = index.remove(ids) if len(ids) else 0
        if removed:
            index.commit()
        left = len(index)
    found = {"index": options.index, "asked": len(ids), "removed": removed, "vectors": left}
    print_result(
        options.json,
        found,
        lambda: print(f"{options.index}: {removed:,} of {len(ids):,} ids removed, {left:,} vectors now"),
    )


def remove_where(options: argparse.Namespace) -> None:
    """Remove the vectors for which a condition holds, and commit."""
    import pcpq

    with pcpq.open(options.index, mode="a") as index:
        removed = index.remove(where=options.where)
        if removed:
            index.commit()
        left = len(index)
    found = {"index": options.index, "removed": removed, "vectors": left}
    print_result(
        options.json, found, lambda: print(f"{options.index}: {removed:,} removed, {left:,} vectors now")
    )
