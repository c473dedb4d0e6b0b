"""The command `pcpq build`."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from pcpq.cli.parsers import Commands, add_attributes, add_index, add_input, add_json, add_threads
from pcpq.cli.terminal import print_result
from pcpq.config import CODEBOOKS, KEEPS, METRICS, ROTATIONS
from pcpq.index import state_of
from pcpq.util.progress import counter, progress_bar

NONE = "none"
FLOAT = 4  # bytes of a float32


def add_build(commands: Commands) -> None:
    """Add the command `pcpq build FILE INDEX`."""
    parser = commands.add(
        "build",
        build,
        "build an index from the vectors in a file",
        [
            "pcpq build vectors.npy vectors.pcpq --metric cosine",
            "pcpq build glove-100-angular.hdf5 glove.pcpq --bytes-per-vector 48",
            "pcpq build pages.parquet pages.pcpq --metric dot --column embedding --attributes lang,year",
            "pcpq build 'parts/*.npy' parts.pcpq --metric dot --ray auto",
        ],
        "Reads .npy, .npz, .fvecs, .bvecs, .ivecs, .fbin, .u8bin, .i8bin, HDF5 (ann-benchmarks), parquet, "
        "Arrow, JSONL and text files of word vectors, in batches. The index is written at the end, atomically.",
    )
    parser.add_argument("file", metavar="FILE", help="file of vectors, with ids if it has any")
    add_index(parser, "directory to write")
    parser.add_argument(
        "--metric", choices=METRICS, help="required unless FILE names the metric, as some HDF5 files do"
    )
    parser.add_argument(
        "--bytes-per-vector",
        metavar="N",
        type=float,
        help="memory budget, from which codes and precision are chosen",
    )
    parser.add_argument(
        "--keep",
        choices=[keep or NONE for keep in KEEPS],
        help="precision of the vectors kept for reranking; none: codes only (default: int16)",
    )
    parser.add_argument(
        "--lists",
        metavar="N",
        type=int,
        help="number of lists (default: 2 sqrt(number of vectors))",
    )
    parser.add_argument(
        "--lists-per-vector",
        metavar="N",
        type=int,
        help="2: put a second code of each vector into another list, for fewer rows scanned "
        "(default: by a sample)",
    )
    parser.add_argument(
        "--code-dimensions",
        metavar="N",
        type=int,
        help="make lists and codes of N coordinates along principal axes (default: by a sample)",
    )
    parser.add_argument(
        "--rotation",
        choices=[rotation or NONE for rotation in ROTATIONS],
        help="rotate vectors before they are encoded (default: none)",
    )
    parser.add_argument(
        "--codebooks", choices=CODEBOOKS, help="one codebook for all lists, or one per list (default: shared)"
    )
    parser.add_argument(
        "--queries", metavar="QUERIES", help="file with a sample of queries, for measuring recall"
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of all random choices (default: 0)"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing index")
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="build on a Ray cluster: its address, auto, or local; FILE can then be a glob or a URL",
    )
    add_attributes(parser)
    add_threads(parser)
    add_json(parser)
    add_input(parser)


def build(options: argparse.Namespace) -> None:
    """Read vectors, build an index and save it."""
    import pcpq
    from pcpq.cli.inputs import attributes_in, plain_queries, vectors_in

    place = Path(options.index)
    check_place(place, options.force)
    if options.ray is not None:
        build_on_ray(options, place)
        return
    file = vectors_in(options, options.file)
    metric = options.metric or file.metric
    if metric is None:
        raise ValueError(f"{file.path} does not name its metric: give --metric, one of {', '.join(METRICS)}")
    start = time.perf_counter()
    with progress_bar(None, "vectors") as bar:
        bar.say("reading")
        queries = None if options.queries is None else plain_queries(options.queries)
        ids, attributes = file.ids(), attributes_in(file, options.attributes)
        bar.say("learning from a sample")
        index = pcpq.build(
            file.vectors,
            ids,
            metric=metric,
            attributes=attributes,
            queries=queries,
            threads=options.threads,
            progress=counter(bar, file.rows, "adding vectors", "measuring recall"),
            seed=options.seed,
            **chosen_settings(options),
        )
        bar.say("writing")
        index.save(place)
    report(options, metric, index, time.perf_counter() - start)


def build_on_ray(options: argparse.Namespace, place: Path) -> None:
    """Build an index on all nodes of a Ray cluster, with one progress bar for all."""
    from pcpq.cli.inputs import plain_queries
    from pcpq.integrations.ray import build as ray_build
    from pcpq.integrations.ray.terminal import connected

    if options.metric is None:
        raise ValueError(f"--ray needs --metric, one of {', '.join(METRICS)}")
    names = [name.strip() for name in (options.attributes or "").split(",") if name.strip()]
    start = time.perf_counter()
    with progress_bar(None, "vectors") as bar:
        bar.say("connecting")
        queries = None if options.queries is None else plain_queries(options.queries)
        with connected(options.ray):
            bar.say("learning from a sample")
            index = ray_build(
                options.file,
                place,
                metric=options.metric,
                column=options.column,
                id_column=options.id_column,
                attributes=names or None,
                queries=queries,
                threads=options.threads,
                overwrite=options.force,
                progress=counter(bar, None, "encoding vectors", "merging, measuring recall"),
                seed=options.seed,
                **chosen_settings(options),
            )
    report(options, options.metric, index, time.perf_counter() - start)


def report(options: argparse.Namespace, metric: str, index: Any, seconds: float) -> None:
    """Print what was built."""
    from pcpq.search.recall_curve import USUAL_TARGET

    stats = index.stats()
    bytes_per_vector = sum(stats["bytes_per_vector"].values())
    chosen = stats.get("chosen")
    found = {
        "index": options.index,
        "metric": metric,
        **{name: stats[name] for name in ("vectors", "dimensions", "lists", "bytes_per_vector")},
        "chosen": chosen,
        "seconds": seconds,
    }

    def show() -> None:
        print(
            f"{options.index}: {stats['vectors']:,} vectors of {stats['dimensions']} dimensions in "
            f"{stats['lists']:,} lists, {bytes_per_vector:.1f} bytes per vector instead of "
            f"{FLOAT * stats['dimensions']}, {seconds:.1f} s"
        )
        if chosen:
            print(chosen)
        curve = state_of(index).snapshot.recall
        if curve is not None and (best := curve.choose(10, 1.0).recall) < USUAL_TARGET:
            print(f"with codes of this size, the recall of a search for 10 is at most about {best:.2f}")

    print_result(options.json, found, show)


def chosen_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the index that were given as options; pcpq.build has defaults for the others."""
    given = {
        "bytes_per_vector": options.bytes_per_vector,
        "n_lists": options.lists,
        "lists_per_vector": options.lists_per_vector,
        "code_dimensions": options.code_dimensions,
        "codebooks": options.codebooks,
        "keep": options.keep,
        "rotation": options.rotation,
    }
    return {name: None if value == NONE else value for name, value in given.items() if value is not None}


def check_place(place: Path, force: bool) -> None:
    """Raise an error if the index could not be written at the end of the build."""
    from pcpq.store.manifest import MANIFEST, is_index_file

    if place.exists() and not place.is_dir():
        raise FileExistsError(f"{place} is a file; an index is a directory")
    if (place / MANIFEST).exists():
        if not force:
            raise FileExistsError(f"{place} exists already: --force replaces it, pcpq add adds to it")
    elif place.is_dir():
        others = [path.name for path in place.iterdir() if not is_index_file(path.name)]
        if others:
            raise FileExistsError(f"{place} is not an index: it contains {others[0]}")
    existing = next(folder for folder in (place, *place.absolute().parents) if folder.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(f"{existing} cannot be written to")
