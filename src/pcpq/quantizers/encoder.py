"""Vectors to codes and back: one encoder for every cell of the grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.arrays import Float32Array, FloatArray, batches, working_rows
from pcpq.parallel import available_threads, map_threads
from pcpq.quantizers.codes import Codes, Model
from pcpq.quantizers.loss import point_ratios
from pcpq.quantizers.options import Options
from pcpq.quantizers.scales import nearest_level
from pcpq.sections import turn

# Passes over the sections of a vector; most vectors settle after three or four.
SWEEPS = 10


def row_norms(rows: Float32Array) -> Float32Array:
    """(n,) lengths."""
    squares: Float32Array = np.einsum("ij,ij->i", rows, rows)
    return np.sqrt(squares)


def unit_vectors(rows: Float32Array, norms: Float32Array) -> Float32Array:
    """Rows of length 1; a zero row stays zero."""
    return np.divide(rows, norms[:, None], out=np.zeros_like(rows), where=norms[:, None] > 0)


def search_codes(
    options: Options, model: Model, points: Float32Array, directions: Float32Array
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Centers and scales of least loss for padded working rows.

    Parameters
    ----------
    points, directions : (n, m * D) float32; directions may be `points` itself

    Returns
    -------
    centers : (n, m) of model.code_dtype
    scales : as in Codes
    """
    m, size = model.layout.n_sections, model.layout.section_size
    n = len(points)
    norms = None
    if options.scale == "norm":
        norms = row_norms(points)
        points = unit_vectors(points, norms)
    turned = turn(points, model.whitening)
    loss, ratios, along = "isotropic", None, None
    if options.whole:
        loss = "whole"
        along = turn(directions, model.whitening)
        threshold = np.array([model.vector_threshold], np.float32)
        ratios = point_ratios(along.reshape(n, 1, -1), threshold, model.layout.dimensions)
    elif model.section_thresholds is not None and not (
        options.assignment == "distance" and options.scale in ("none", "norm")
    ):
        loss = "section"
        ratios = point_ratios(turned.reshape(n, m, size), model.section_thresholds, size)
    scale = "none" if options.scale == "norm" else options.scale
    levels = model.scales
    if scale == "vector":
        assert model.vector_levels is not None
        levels = np.tile(model.vector_levels, (m, 1))
    centers = np.empty((n, m), np.uint16)
    indices = {"quantized": m, "vector": 1}.get(scale)
    scales: NDArray[Any] | None = None if indices is None else np.empty((n, indices), np.uint8)
    alphas = np.empty((n, m), np.float32) if scale == "exact" else None
    by_distance = options.assignment == "distance"
    _core.encode(
        turned,
        model.centers,
        levels,
        along,
        ratios,
        loss,
        scale,
        by_distance,
        SWEEPS,
        centers,
        scales,
        alphas,
    )
    if norms is not None:
        assert model.vector_levels is not None
        scales = nearest_level(norms, model.vector_levels)[:, None]
    return centers.astype(model.code_dtype, copy=False), scales if alphas is None else alphas


def scale_columns(options: Options, n_sections: int) -> int:
    """How many scales a vector has in Codes."""
    return {"none": 0, "exact": n_sections, "quantized": n_sections, "vector": 1, "norm": 1}[options.scale]


def encode(
    options: Options, model: Model, vectors: FloatArray, directions: FloatArray | None, threads: int | None
) -> Codes:
    """Codes of vectors, in batches, so that memory is the codes and little more."""
    n, m = len(vectors), model.layout.n_sections
    columns = scale_columns(options, m)
    codes = Codes(
        np.empty((n, m), model.code_dtype),
        np.empty((n, columns), np.float32 if options.scale == "exact" else np.uint8) if columns else None,
        np.empty(n, np.float16) if model.gain else None,
        np.empty(n, np.float16) if model.bias_weight else None,
    )

    def encode_batch(rows: slice) -> None:
        points = model.layout.pad(working_rows(vectors[rows], model.unit, "vectors", rows.start))
        towards = points
        if directions is not None:
            towards = model.layout.pad(working_rows(directions[rows], model.unit, "directions", rows.start))
        centers, scales = search_codes(options, model, points, towards)
        codes.centers[rows] = centers
        if codes.scales is not None:
            codes.scales[rows] = scales
        if codes.gains is not None or codes.biases is not None:
            decoded = decode_working(model, centers, scales)
            gains, biases = corrections(points, towards, decoded, model.gain, model.bias_weight)
            if codes.gains is not None:
                codes.gains[rows] = gains
            if codes.biases is not None:
                codes.biases[rows] = biases

    count = available_threads(threads)
    map_threads(encode_batch, batches(n, model.layout.padded, count), count)
    return codes


def decode_working(model: Model, centers: NDArray[Any], scales: NDArray[Any] | None) -> Float32Array:
    """(n, m * D) decoded rows in working units, padding included."""
    out = np.empty((len(centers), model.layout.padded), np.float32)
    indices, alphas = split_scales(model, scales)
    _core.decode(model.readout, model.scales, np.ascontiguousarray(centers), indices, alphas, out)
    if model.vector_levels is not None and scales is not None:
        out *= model.vector_levels[scales]
    return out


def split_scales(
    model: Model, scales: NDArray[Any] | None
) -> tuple[NDArray[np.uint8] | None, Float32Array | None]:
    """Scales of sections as the native code wants them: indices, or values."""
    if scales is None or model.vector_levels is not None:
        return None, None
    if model.scales is None:
        return None, np.ascontiguousarray(scales, np.float32)
    return np.ascontiguousarray(scales, np.uint8), None


def corrections(
    points: Float32Array, directions: Float32Array, decoded: Float32Array, gain: bool, bias_weight: float
) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """The two numbers a vector that make its estimate exact where it matters.

    The gain makes the estimate of <q, r> exact for q along r, the bias that of <q, x> for q along x:
        g = |r|^2 / <r, r^>  in [1/4, 4], 1 where <r, r^> <= 0
        b = bias_weight * <x, r - g r^> / |x|
    The bias is made with the gain as rounded to float16, so it mends that rounding too.
    """
    gains = np.ones(len(points), np.float16)
    if gain:
        square = np.einsum("ij,ij->i", points, points)
        agreement = np.einsum("ij,ij->i", points, decoded)
        ratio = np.divide(square, agreement, out=np.ones_like(square), where=agreement > 0)
        gains = np.clip(ratio, 0.25, 4.0).astype(np.float16)
    biases = np.zeros(len(points), np.float16)
    if bias_weight:
        missing = np.einsum("ij,ij->i", directions, points)
        missing -= gains.astype(np.float32) * np.einsum("ij,ij->i", directions, decoded)
        norms = row_norms(directions)
        parallel = np.divide(missing, norms, out=np.zeros_like(missing), where=norms > 0)
        largest = float(np.finfo(np.float16).max)
        biases = np.clip(bias_weight * parallel, -largest, largest).astype(np.float16)
    return gains, biases
