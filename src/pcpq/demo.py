"""The main job on real word vectors: `python -m pcpq.demo [WORD ...]`, or `make demo`."""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from pcpq import Index, build
from pcpq.arrays import Float32Array
from pcpq.datasets import load_words

WORDS = ("king", "paris", "guitar", "python", "tuesday")
K = 10
N_QUERIES = 500


def main(arguments: list[str] | None = None) -> None:
    """Index 20,000 words, show neighbours, and say how well and how fast they are found."""
    parser = argparse.ArgumentParser(
        prog="pcpq.demo", description="Neighbours of words, from compressed vectors."
    )
    parser.add_argument("words", nargs="*", default=list(WORDS), metavar="WORD")
    asked = parser.parse_args(arguments).words
    vectors, words = load_words()
    number = {word: i for i, word in enumerate(words)}
    unknown = [word for word in asked if word not in number]
    if unknown:
        parser.error(f"not among the {len(words)} words: {', '.join(unknown)}")

    start = time.perf_counter()
    index = build(vectors, metric="cosine")
    seconds = time.perf_counter() - start
    print(f"{len(words):,} words, {vectors.shape[1]} dimensions, indexed in {seconds:.1f} s\n")
    nearest = index.search(vectors[[number[word] for word in asked]], k=7).ids
    for word, found in zip(asked, nearest, strict=True):
        others = [words[i] for i in found if words[i] != word][:6]
        print(f"  {word:>12s}  {', '.join(others)}")

    queries = vectors[np.random.default_rng(0).permutation(len(words))[:N_QUERIES]]
    exact = brute_force(vectors, queries)
    print(f"\n  {'':34s} recall {K}@{K}  queries a second  bytes a vector")
    plain = 4 * vectors.shape[1]
    report("codes, then vectors kept as int16", index, queries, exact)
    report(
        "codes alone, every list", build(vectors, metric="cosine", keep=None), queries, exact, probes=1 << 20
    )
    print(f"  {'float32':34s} {1:>12.3f}  {'':>16s}  {plain:>14d}")


def brute_force(vectors: Float32Array, queries: Float32Array) -> NDArray[np.intp]:
    """(n, K) rows of the largest cosine."""
    scores = queries @ (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).T
    return np.argpartition(-scores, K, axis=1)[:, :K]


def report(
    label: str, index: Index, queries: Float32Array, exact: NDArray[np.intp], probes: int | None = None
) -> None:
    """One line: recall, speed and size."""
    start = time.perf_counter()
    found = index.search(queries, k=K, probes=probes).ids
    seconds = time.perf_counter() - start
    recall = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found, exact, strict=True)])
    size = sum(index.stats()["bytes_per_vector"].values())
    print(f"  {label:34s} {recall:>12.3f}  {len(queries) / seconds:>16,.0f}  {size:>14.1f}")


if __name__ == "__main__":
    main()
