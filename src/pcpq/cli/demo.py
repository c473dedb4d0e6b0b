"""The main job on real word vectors: `pcpq demo [WORD ...]`, or `make demo`."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import Index, build
from pcpq.cli.terminal import print_table, stop_writing, tell
from pcpq.datasets import load_words
from pcpq.io.arrays import Float32Array
from pcpq.util.progress import progress_bar

WORDS = ("king", "paris", "guitar", "python", "tuesday")
K = 10
NEIGHBOURS = 6
N_QUERIES = 500

Rows = NDArray[np.intp]


def main(arguments: list[str] | None = None) -> None:
    """Show it."""
    parser = argparse.ArgumentParser(
        prog="pcpq demo", description="Neighbours of words, from compressed vectors."
    )
    add_words(parser)
    try:
        show(parser.parse_args(arguments).words, as_json=False)
        sys.stdout.flush()
    except ValueError as error:
        parser.error(str(error))
    except BrokenPipeError:  # who reads has read enough
        stop_writing()


def add_words(parser: argparse.ArgumentParser) -> None:
    """WORD ..."""
    parser.add_argument(
        "words",
        nargs="*",
        default=list(WORDS),
        metavar="WORD",
        help=f"words to look up (default: {' '.join(WORDS)})",
    )


def show(asked: list[str], as_json: bool) -> None:
    """Index 20,000 words, show neighbours, and say how well and how fast they are found."""
    vectors, words = load_words()
    number = {word: i for i, word in enumerate(words)}
    asked = [word if word in number else word.lower() for word in asked]
    unknown = [word for word in asked if word not in number]
    if unknown:
        raise ValueError(f"not among the {len(words):,} words: {', '.join(unknown)}")
    with progress_bar(None) as bar:
        bar.say(f"indexing {len(words):,} words")
        start = time.perf_counter()
        index = build(vectors, metric="cosine")
        seconds = time.perf_counter() - start
    nearest = index.search(vectors[[number[word] for word in asked]], k=NEIGHBOURS + 1).ids
    neighbours = {
        word: [words[i] for i in found if words[i] != word][:NEIGHBOURS]
        for word, found in zip(asked, nearest, strict=True)
    }
    if not as_json:
        print(f"{len(words):,} words, {vectors.shape[1]} dimensions, indexed in {seconds:.1f} s\n", flush=True)
        print_table(
            ("word", "nearest"), [(word, ", ".join(near)) for word, near in neighbours.items()], words=2
        )
        print(flush=True)
    with progress_bar(None) as bar:
        bar.say("measuring")
        rows = measure(vectors, index)
    found = {"words": len(words), "seconds": seconds, "neighbours": neighbours, "measured": rows}
    tell(as_json, found, lambda: show_measured(rows))


def measure(vectors: Float32Array, index: Index) -> list[dict[str, Any]]:
    """Recall, speed and bytes: of the index, of codes alone, of plain vectors."""
    asked = np.random.default_rng(0).permutation(len(vectors))[:N_QUERIES]
    start = time.perf_counter()
    exact = brute_force(vectors, asked)
    speed = len(asked) / (time.perf_counter() - start)
    codes = build(vectors, metric="cosine", keep=None)
    return [
        measured("codes, reranked with int16 vectors", index, vectors, asked, exact),
        measured("codes only, all lists", codes, vectors, asked, exact, probes=1 << 20),
        {
            "what": "float32, NumPy",
            "recall": 1.0,
            "queries_per_second": speed,
            "bytes_per_vector": 4 * vectors.shape[1],
        },
    ]


def brute_force(vectors: Float32Array, asked: Rows) -> Rows:
    """(n, K) rows of the largest cosine, but for the one that was asked for."""
    scores = vectors[asked] @ (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).T
    scores[np.arange(len(asked)), asked] = -np.inf
    return np.argpartition(-scores, K, axis=1)[:, :K]


def measured(
    what: str, index: Index, vectors: Float32Array, asked: Rows, exact: Rows, probes: int | None = None
) -> dict[str, Any]:
    """One way to search. A word is no neighbour of its own: it is found, and does not count."""
    queries = vectors[asked]
    index.search(queries, k=K + 1, probes=probes)  # what is made once is made
    start = time.perf_counter()
    found = index.search(queries, k=K + 1, probes=probes).ids
    seconds = time.perf_counter() - start
    others = [ids[ids != own][:K] for ids, own in zip(found, asked, strict=True)]
    recall = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(others, exact, strict=True)])
    return {
        "what": what,
        "recall": recall,
        "queries_per_second": len(queries) / seconds,
        "bytes_per_vector": sum(index.stats()["bytes_per_vector"].values()),
    }


def show_measured(rows: list[dict[str, Any]]) -> None:
    """As a table."""
    plain = rows[-1]["bytes_per_vector"]
    print_table(
        ("", f"recall {K}@{K}", "queries per second", "bytes per vector", "share of float32"),
        [
            (
                row["what"],
                f"{row['recall']:.3f}",
                f"{row['queries_per_second']:,.0f}",
                f"{row['bytes_per_vector']:.1f}",
                f"{row['bytes_per_vector'] / plain:.0%}",
            )
            for row in rows
        ],
    )


if __name__ == "__main__":
    main()
