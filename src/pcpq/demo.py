"""The main job on real word vectors: `python -m pcpq.demo [WORD ...]`, or `make demo`."""

from __future__ import annotations

import argparse
import time

import numpy as np

from pcpq import QPCPQ
from pcpq.arrays import Float32Array
from pcpq.datasets import load_words

WORDS = ("king", "paris", "guitar", "python", "tuesday")
K = 10


def best(scores: Float32Array, k: int) -> np.ndarray:
    """(n, k) columns of the largest scores, best first."""
    top = np.argpartition(-scores, k, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, order, axis=1)


def main(arguments: list[str] | None = None) -> None:
    """Quantize 20,000 words, search them by their codes, and say how well that went."""
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
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    start = time.perf_counter()
    quantizer = QPCPQ(section_size=2, n_centers=16, n_scales=16).fit(vectors)
    fitted = time.perf_counter()
    codes = quantizer.encode(vectors)
    encoded = time.perf_counter()

    print(f"{len(words):,} words, {vectors.shape[1]} dimensions: {quantizer}")
    print(f"fit {fitted - start:.2f} s, encode {encoded - fitted:.2f} s\n")
    rows = [number[word] for word in asked]
    nearest = best(quantizer.scores(vectors[rows], codes), K + 1)
    for row, found in zip(rows, nearest, strict=True):
        others = [words[i] for i in found if i != row][:6]
        print(f"  {words[row]:>12s}  {', '.join(others)}")

    queries = np.random.default_rng(0).permutation(len(words))[:500]
    exact = best(vectors[queries] @ vectors.T, K)
    start = time.perf_counter()
    found = best(quantizer.scores(vectors[queries], codes), K)
    seconds = time.perf_counter() - start
    recall = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found, exact, strict=True)])
    size = quantizer.bits_per_vector / 8
    print(f"\n  recall {K}@{K}      {recall:.3f}  (500 words, every code scored, nothing re-ranked)")
    print(f"  speed            {len(queries) / seconds:,.0f} queries a second")
    plain = 4 * vectors.shape[1]
    print(f"  bytes a vector   {size:g}, against {plain} as float32: {plain / size:.1f} times less")


if __name__ == "__main__":
    main()
