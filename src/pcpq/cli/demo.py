"""Build and search an index of real word vectors: `pcpq demo [WORD ...]`, or `make demo`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import Index, build
from pcpq.cli.terminal import print_result, print_table, stop_writing
from pcpq.datasets import load_words
from pcpq.io.arrays import Float32Array
from pcpq.search.recall_curve import USUAL_TARGET
from pcpq.util.progress import progress_bar

WORDS = ("king", "paris", "guitar", "python", "tuesday")
OTHER_WORDS = ("coffee", "river", "planet", "violin")
K = 10
NEIGHBOURS = 6
N_QUERIES = 500
# Lines of Python that make the index which the commands after them search.
PYTHON = (
    "import pcpq",
    "from pcpq.datasets import load_words",
    "vectors, words = load_words()",
    'pcpq.build(vectors, ids=words, metric="cosine").save("words.pcpq")',
)
TUTORIAL = "docs/tutorial.md"

Rows = NDArray[np.intp]


def main(arguments: list[str] | None = None) -> None:
    """Run the demo as a program."""
    parser = argparse.ArgumentParser(
        prog="pcpq demo", description="Neighbours of words, from compressed vectors."
    )
    add_words(parser)
    try:
        show(parser.parse_args(arguments).words, as_json=False)
        sys.stdout.flush()
    except ValueError as error:
        parser.error(str(error))
    except BrokenPipeError:  # the reader closed the pipe
        stop_writing()


def add_words(parser: argparse.ArgumentParser) -> None:
    """Add the arguments WORD ... to a parser."""
    parser.add_argument(
        "words",
        nargs="*",
        default=list(WORDS),
        metavar="WORD",
        help=f"words to look up (default: {' '.join(WORDS)})",
    )


def show(chosen: list[str], as_json: bool) -> None:
    """Index 20,000 words; print neighbours of some words, and recall, speed and size."""
    vectors, words = load_words()
    number = {word: i for i, word in enumerate(words)}
    chosen = [word if word in number else word.lower() for word in chosen]
    unknown = [word for word in chosen if word not in number]
    if unknown:
        raise ValueError(f"not among the {len(words):,} words: {', '.join(unknown)}")
    with progress_bar(None) as bar:
        bar.say(f"indexing {len(words):,} words")
        start = time.perf_counter()
        index = build(vectors, metric="cosine")
        seconds = time.perf_counter() - start
    nearest = index.search(vectors[[number[word] for word in chosen]], k=NEIGHBOURS + 1).ids
    neighbours = {
        word: [words[i] for i in found if words[i] != word][:NEIGHBOURS]
        for word, found in zip(chosen, nearest, strict=True)
    }
    if not as_json:
        print(f"{len(words):,} words, {vectors.shape[1]} dimensions, indexed in {seconds:.1f} s\n", flush=True)
        print_table(("word", "nearest"), [(word, ", ".join(near)) for word, near in neighbours.items()], left=2)
        print(flush=True)
    with progress_bar(None) as bar:
        bar.say("measuring")
        rows = measure(vectors, index)
    found = {"words": len(words), "seconds": seconds, "neighbours": neighbours, "measured": rows}
    print_result(as_json, found, lambda: show_measured(rows))
    if not as_json:
        show_next(chosen)


def measure(vectors: Float32Array, index: Index) -> list[dict[str, Any]]:
    """Return recall, speed and bytes per vector of the index, of codes alone, and of float32 vectors."""
    query_rows = np.random.default_rng(0).permutation(len(vectors))[:N_QUERIES]
    start = time.perf_counter()
    exact = brute_force(vectors, query_rows)
    speed = len(query_rows) / (time.perf_counter() - start)
    codes = build(vectors, metric="cosine", keep=None)
    return [
        measured("codes, reranked with int16 vectors", index, vectors, query_rows, exact),
        measured("codes only, all lists", codes, vectors, query_rows, exact, probes=1 << 20),
        {
            "what": "float32, NumPy",
            "recall": 1.0,
            "queries_per_second": speed,
            "bytes_per_vector": 4 * vectors.shape[1],
        },
    ]


def brute_force(vectors: Float32Array, query_rows: Rows) -> Rows:
    """Return the (n, K) rows of the largest cosine, without the query itself."""
    scores = vectors[query_rows] @ (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).T
    scores[np.arange(len(query_rows)), query_rows] = -np.inf
    return np.argpartition(-scores, K, axis=1)[:, :K]


def measured(
    what: str, index: Index, vectors: Float32Array, query_rows: Rows, exact: Rows, probes: int | None = None
) -> dict[str, Any]:
    """Return recall, speed and bytes per vector of one index; a word is not counted as its own neighbour."""
    queries = vectors[query_rows]
    index.search(queries, k=K + 1, probes=probes)  # the first search also computes lazy attributes
    start = time.perf_counter()
    found = index.search(queries, k=K + 1, probes=probes).ids
    seconds = time.perf_counter() - start
    others = [ids[ids != row][:K] for ids, row in zip(found, query_rows, strict=True)]
    recall = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(others, exact, strict=True)])
    return {
        "what": what,
        "recall": recall,
        "queries_per_second": len(queries) / seconds,
        "bytes_per_vector": sum(index.stats()["bytes_per_vector"].values()),
    }


def show_measured(rows: list[dict[str, Any]]) -> None:
    """Print the measurements as a table; only the first search chooses its settings for a recall."""
    plain = rows[-1]["bytes_per_vector"]
    print_table(
        ("", "target", f"recall {K}@{K}", "queries per second", "bytes per vector", "share of float32"),
        [
            (
                row["what"],
                f"{USUAL_TARGET:.2f}" if row is rows[0] else "-",
                f"{row['recall']:.3f}",
                f"{row['queries_per_second']:,.0f}",
                f"{row['bytes_per_vector']:.1f}",
                f"{row['bytes_per_vector'] / plain:.0%}",
            )
            for row in rows
        ],
    )


def show_next(chosen: list[str]) -> None:
    """Print what to type next; words that were not among those chosen."""
    python, script = Path(sys.executable), Path(sys.executable).with_name("pcpq")
    pcpq = typed(script) if script.exists() else f"{typed(python)} -m pcpq.cli"
    others = [word for word in OTHER_WORDS if word not in chosen][:2]
    print(
        f"\nNext, neighbours of other words:\n\n  {pcpq} demo {' '.join(others)}\n\n"
        f"An index in a directory, by Python ({typed(python)}):\n\n" + "\n".join(f"  {line}" for line in PYTHON)
    )
    print(
        f"\nIt is searched and described by:\n\n  {pcpq} search words.pcpq --word coffee\n"
        f"  {pcpq} info words.pcpq\n\n"
        f'`{pcpq} explore words.pcpq` shows it in a browser (pip install "pcpq[explore]");\n'
        f"`{pcpq} build FILE INDEX --metric cosine` takes your own vectors; {TUTORIAL} goes on from here.",
        flush=True,
    )


def typed(program: Path) -> str:
    """Return a program as it is typed: its name if the shell finds it, otherwise the shorter path to it."""
    # Links are not followed: the Python of an environment is a link to one that lacks its packages.
    found = shutil.which(program.name)
    if found is not None and os.path.abspath(found) == os.path.abspath(program):
        return program.name
    return min(os.path.relpath(program), str(program), key=len)


if __name__ == "__main__":
    main()
