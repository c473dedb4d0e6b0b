"""Estimated inner products by lookup tables (the paper's last equation), with gain and bias."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array, FloatArray
from pcpq.quantizers.codes import Codes, Model
from pcpq.quantizers.encoder import split_scales
from pcpq.util.threads import map_threads

# Queries per task: enough to share the codes in cache, few enough to use all threads.
QUERIES_TOGETHER = 16


def score_arguments(model: Model, codes: Codes) -> dict[str, Any]:
    """Return the arguments of the native scorer for a model and codes."""
    indices, alphas = split_scales(model, codes.scales)
    return {
        "codewords": model.readout,
        "scales": model.scales,
        "codes": np.ascontiguousarray(codes.codes),
        "scale_codes": indices,
        "alphas": alphas,
    }


def scores(model: Model, queries: Float32Array, codes: Codes, threads: int | None) -> Float32Array:
    """Return the (n_queries, n) estimated inner products with padded queries, in the user's units."""
    out = np.empty((len(queries), len(codes)), np.float32)
    arguments = score_arguments(model, codes)
    factors = vector_factors(model, codes)
    lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64)).astype(np.float32)
    biases = None if codes.biases is None or model.anchored else codes.biases.astype(np.float32)

    def score_some(rows: slice) -> None:
        part = out[rows]
        _core.score(queries=queries[rows], out_scores=part, **arguments)
        if factors is not None:
            part *= factors
        if biases is not None:
            part += lengths[rows, None] * biases
        part *= np.float32(model.unit)

    starts = range(0, len(queries), QUERIES_TOGETHER)
    map_threads(score_some, [slice(start, start + QUERIES_TOGETHER) for start in starts], threads)
    return out


def anchor_scores(model: Model, queries: FloatArray, anchors: FloatArray, codes: Codes) -> Float32Array:
    """Return the (n_queries, n) scores of the anchors, with the bias if it is a share of them."""
    products: Float32Array = np.asarray(queries, np.float32) @ np.asarray(anchors, np.float32).T
    if model.anchored and codes.biases is not None:
        products = products * (np.float32(1) + codes.biases.astype(np.float32))
    return np.broadcast_to(products, (len(queries), len(codes)))


def vector_factors(model: Model, codes: Codes) -> NDArray[np.float32] | None:
    """Return the (n,) factors of the lookup-table sums: scale or norm, times gain; None if all are 1."""
    factors = None
    if model.vector_levels is not None and codes.scales is not None:
        factors = model.vector_levels[codes.scales[:, 0]]
    if codes.gains is not None:
        gains = codes.gains.astype(np.float32)
        factors = gains if factors is None else factors * gains
    return factors
