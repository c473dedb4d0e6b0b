"""Table 1 of the paper: operations counted during execution and timed, beside the formulas of the paper."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from pcpq import _core
from pcpq.experiments.paper.extensions import Setting
from pcpq.io.arrays import Float32Array
from pcpq.quantizers import PQ, QPCPQ, Codes, Quantizer
from pcpq.quantizers.scorer import score_arguments

# The list size of the paper, and a size at which the cost of lookup tables is negligible.
VECTORS = (1000, 100_000)
TIMED_QUERIES = 20
REPEATS = 5


def table(setting: Setting, vectors: Float32Array, queries: Float32Array) -> Iterator[dict[str, Any]]:
    """Yield the rows of Table 1 for two numbers of vectors."""
    d, m, k, s = vectors.shape[1], setting.n_sections, setting.n_centers, setting.n_scales
    kinds: list[tuple[str, Quantizer, str, int, int]] = [
        (f"clustering, {k} codewords", PQ(n_sections=1, n_centers=k, paper=True), f"{k}", k * d, 1),
        (f"PQ, {k} codewords", PQ(n_sections=m, n_centers=k, paper=True), f"{k}^{m}", k * d, 2 * m),
        (
            f"PQ, {k * s:,} codewords",
            PQ(n_sections=m, n_centers=k * s, paper=True),
            f"{k * s}^{m}",
            s * k * d,
            2 * m,
        ),
        (
            f"Q-PCPQ, {k} codewords, {s} scales",
            QPCPQ(n_sections=m, n_centers=k, n_scales=s, paper=True),
            f"{k * s}^{m}",
            k * d + s * k * m,
            2 * m,
        ),
    ]
    for label, quantizer, distinct, once, each in kinds:
        quantizer.fit(vectors)
        codes = quantizer.encode(vectors[: max(VECTORS)])
        for n in VECTORS:
            # Codes are repeated if there are fewer vectors, because only their number matters.
            some = codes[np.arange(n) % len(codes)]
            one = quantizer.model_.layout.pad(queries[:1])
            counted = _core.count_score_operations(queries=one, **score_arguments(quantizer.model_, some))
            yield {
                "label": label,
                "vectors": n,
                "centers": distinct,
                "formula": once + each * n,
                "counted": count(counted, plain=quantizer.n_sections == 1),
                "padding": quantizer.model_.layout.padded - d,
                "microseconds": round(1e6 * fastest(quantizer, some, queries[:TIMED_QUERIES]), 1),
                "index_bits": quantizer.bits_per_vector * n,
            }


def count(counted: _core.OperationCounts, *, plain: bool) -> int:
    """Return the number of operations; with one section, there are no additions to count."""
    others = counted.multiply_adds + counted.multiplications + counted.look_ups
    return others if plain else others + counted.additions


def fastest(quantizer: Quantizer, codes: Codes, queries: Float32Array) -> float:
    """Return the seconds per query on one thread, the best of several repeats."""
    quantizer.set_params(threads=1)
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        quantizer.scores(queries, codes)
        seconds.append((time.perf_counter() - start) / len(queries))
    return min(seconds)
