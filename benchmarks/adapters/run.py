"""Run the adapters here as their projects would: python benchmarks/adapters/run.py vibe --distance ip

Prints the recall and speed of every setting of config.yml, on the word vectors that come with pcpq. Needs h5py
and pyyaml; the projects themselves are not needed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data import WordSet, write_hdf5
from definitions import Definition, read_big_ann, read_hdf5_project
from follow import Outcome, follow_big_ann, follow_hdf5, follow_stream
from stage import HERE, staged

PROJECTS = {"ann_benchmarks": ("angular", "euclidean"), "vibe": ("cosine", "euclidean", "ip", "normalized")}
# Tracks of big-ann: where their configuration is, and which of its data sets the words stand for.
TRACKS = {
    "t1": ("algos-2021.pcpq.yaml", "random-xs", "knn"),
    "t1-range": ("algos-2021.pcpq.yaml", "random-range-xs", "range"),
    "ood": ("neurips23/ood/pcpq/config.yaml", "text2image-10M", "knn"),
    "filter": ("neurips23/filter/pcpq/config.yaml", "random-filter-s", "knn_filtered"),
    "streaming": ("neurips23/streaming/pcpq/config.yaml", "random-xs", "knn"),
}
BIG_ANN_DISTANCES = ("euclidean", "ip", "angular")


@contextmanager
def inside(folder: str) -> Iterator[None]:
    """Where big-ann's adapters store their indexes: under the working directory."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def some_of(definitions: list[Definition], most: int | None) -> list[Definition]:
    """The first builds of each algorithm, and the first settings of each build."""
    if most is None:
        return definitions
    chosen, seen = [], dict.fromkeys((one.name for one in definitions), 0)
    for one in definitions:
        seen[one.name] += 1
        if seen[one.name] <= most:
            one.queries = one.queries[:: max(1, len(one.queries) // most)][:most]
            chosen.append(one)
    return chosen


def run_hdf5_project(
    project: str, distance: str, rows: int, queries: int, count: int, runs: int, batch: bool, most: int | None
) -> Iterator[Outcome]:
    """ann-benchmarks or VIBE."""
    with tempfile.TemporaryDirectory() as folder, staged():
        path = Path(folder) / f"words-100-{distance}.hdf5"
        write_hdf5(path, distance, rows, queries)
        definitions = read_hdf5_project(project, HERE / project / "config.yml", distance, 100, count)
        for definition in some_of(definitions, most):
            yield from follow_hdf5(definition, path, count, runs, batch)


def run_big_ann(
    track: str, distance: str, dtype: str, rows: int, queries: int, count: int, runs: int, most: int | None
) -> Iterator[Outcome]:
    """One of its tracks, in a folder of its own."""
    config, dataset, kind = TRACKS[track]
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        data = WordSet.written(Path(folder), dtype, distance, kind, rows, queries)
        wanted = data.default_count() if kind == "range" else count
        with staged({dataset: lambda: data}):
            definitions = read_big_ann(HERE / "big_ann" / config, dataset, distance, data.d, count)
            for definition in some_of(definitions, most):
                if track == "streaming":
                    yield from follow_stream(definition, data, count)
                else:
                    yield from follow_big_ann(definition, dataset, data, wanted, runs)


def main(arguments: list[str] | None = None) -> list[Outcome]:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", choices=[*PROJECTS, "big_ann"])
    parser.add_argument("--track", choices=list(TRACKS), default="t1", help="of big_ann")
    parser.add_argument("--distance", help="of the project; its first if none is given")
    parser.add_argument("--dtype", choices=["float32", "uint8"], default="float32", help="of big_ann's files")
    parser.add_argument("--rows", type=int, default=19_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--count", type=int, default=10, help="neighbours")
    parser.add_argument("--runs", type=int, default=3, help="the fastest counts")
    parser.add_argument("--batch", action="store_true", help="ask all queries at once")
    parser.add_argument("--most", type=int, help="builds of each algorithm, and settings of each build")
    given = parser.parse_args(arguments)
    known = BIG_ANN_DISTANCES if given.project == "big_ann" else PROJECTS[given.project]
    distance = given.distance or known[0]
    if distance not in known:
        parser.error(f"distance is {distance!r}; {given.project} has {', '.join(known)}")
    common = (given.rows, given.queries, given.count, given.runs)
    if given.project == "big_ann":
        outcomes = run_big_ann(given.track, distance, given.dtype, *common, given.most)
    else:
        outcomes = run_hdf5_project(given.project, distance, *common, given.batch, given.most)
    found = []
    print(f"{'recall':>7} {'queries/s':>10} {'build s':>8}  setting")
    for one in outcomes:
        found.append(one)
        print(
            f"{one.recall:7.4f} {one.queries_per_second:10,.0f} {one.build_seconds:8.2f}  "
            f"{one.algorithm}: {one.name}",
            flush=True,
        )
    return found


if __name__ == "__main__":
    main()
