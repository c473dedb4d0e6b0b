"""Encoding and decoding of vectors, for all six quantizers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array, FloatArray, working_rows
from pcpq.quantizers.codes import Codes, Model
from pcpq.quantizers.loss import point_ratios
from pcpq.quantizers.options import Options
from pcpq.quantizers.scales import nearest_level
from pcpq.quantizers.sections import whiten
from pcpq.util.batches import encoding_batches
from pcpq.util.threads import available_threads, map_threads

# Largest number of passes over the sections of a vector; most codes stop changing after three or four.
SWEEPS = 10


def row_norms(rows: Float32Array) -> Float32Array:
    """Return the (n,) lengths of rows."""
    squares: Float32Array = np.einsum("ij,ij->i", rows, rows)
    return np.sqrt(squares)


def unit_vectors(rows: Float32Array, norms: Float32Array) -> Float32Array:
    """Return rows scaled to length 1; a zero row stays zero."""
    return np.divide(rows, norms[:, None], out=np.zeros_like(rows), where=norms[:, None] > 0)


def search_codes(
    options: Options, model: Model, points: Float32Array, directions: Float32Array
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the codes and scales of least loss for padded rows in working units.

    Parameters
    ----------
    points, directions : (n, m * D) float32; directions may be `points` itself

    Returns
    -------
    codes : (n, m) indices of codewords, of model.code_dtype
    scales : as in Codes
    """
    m, size = model.layout.n_sections, model.layout.section_size
    n = len(points)
    norms = None
    if options.scale == "norm":
        norms = row_norms(points)
        points = unit_vectors(points, norms)
    whitened = whiten(points, model.whitening)
    loss, ratios, along = "isotropic", None, None
    if options.whole:
        loss = "whole"
        along = whiten(directions, model.whitening)
        threshold = np.array([model.vector_threshold], np.float32)
        ratios = point_ratios(along.reshape(n, 1, -1), threshold, model.layout.dimensions)
    elif model.section_thresholds is not None and not (
        options.assignment == "distance" and options.scale in ("none", "norm")
    ):
        loss = "section"
        ratios = point_ratios(whitened.reshape(n, m, size), model.section_thresholds, size)
    scale = "none" if options.scale == "norm" else options.scale
    levels = model.scales
    if scale == "vector":
        assert model.vector_levels is not None
        levels = np.tile(model.vector_levels, (m, 1))
    codes = np.empty((n, m), np.uint16)
    indices = {"quantized": m, "vector": 1}.get(scale)
    scales: NDArray[Any] | None = None if indices is None else np.empty((n, indices), np.uint8)
    alphas = np.empty((n, m), np.float32) if scale == "exact" else None
    _core.encode(
        points=whitened,
        codewords=model.codewords,
        scales=levels,
        directions=along,
        ratios=ratios,
        loss=loss,
        scale=scale,
        by_distance=options.assignment == "distance",
        sweeps=SWEEPS,
        out_codes=codes,
        out_scales=scales,
        out_alphas=alphas,
    )
    if norms is not None:
        assert model.vector_levels is not None
        scales = nearest_level(norms, model.vector_levels)[:, None]
    return codes.astype(model.code_dtype, copy=False), scales if alphas is None else alphas


def scale_columns(options: Options, n_sections: int) -> int:
    """Return the number of scales per vector in Codes."""
    return {"none": 0, "exact": n_sections, "quantized": n_sections, "vector": 1, "norm": 1}[options.scale]


def encode(
    options: Options, model: Model, vectors: FloatArray, directions: FloatArray | None, threads: int | None
) -> Codes:
    """Encode vectors in batches, so that little memory is needed besides the codes."""
    n, m = len(vectors), model.layout.n_sections
    columns = scale_columns(options, m)
    out = Codes(
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
        codes, scales = search_codes(options, model, points, towards)
        out.codes[rows] = codes
        if out.scales is not None:
            out.scales[rows] = scales
        if out.gains is not None or out.biases is not None:
            decoded = decode_working(model, codes, scales)
            if model.anchored:
                gains, biases = anchored_corrections(points, towards - points, decoded, model.gain)
            else:
                gains, biases = corrections(points, towards, decoded, model.gain, model.bias_weight)
            if out.gains is not None:
                out.gains[rows] = gains
            if out.biases is not None:
                out.biases[rows] = biases

    count = available_threads(threads)
    map_threads(encode_batch, encoding_batches(n, model.layout.padded, count), count)
    return out


def decode_working(model: Model, codes: NDArray[Any], scales: NDArray[Any] | None) -> Float32Array:
    """Return the (n, m * D) decoded rows in working units, with padding."""
    out = np.empty((len(codes), model.layout.padded), np.float32)
    indices, alphas = split_scales(model, scales)
    _core.decode(
        codewords=model.readout,
        scales=model.scales,
        codes=np.ascontiguousarray(codes),
        scale_codes=indices,
        alphas=alphas,
        out_points=out,
    )
    if model.vector_levels is not None and scales is not None:
        out *= model.vector_levels[scales]
    return out


def split_scales(
    model: Model, scales: NDArray[Any] | None
) -> tuple[NDArray[np.uint8] | None, Float32Array | None]:
    """Return the indices of section scales and the exact scales for native code; at most one is not None."""
    if scales is None or model.vector_levels is not None:
        return None, None
    if model.scales is None:
        return None, np.ascontiguousarray(scales, np.float32)
    return np.ascontiguousarray(scales, np.uint8), None


def corrections(
    points: Float32Array, directions: Float32Array, decoded: Float32Array, gain: bool, bias_weight: float
) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Return the gain and bias per vector that correct its estimated scores.

    The gain makes the estimate of <q, r> exact for q along r, the bias that of <q, x> for q along x:
        g = |r|^2 / <r, r^>  in [1/4, 4], 1 where <r, r^> <= 0
        b = bias_weight * <x, r - g r^> / |x|
    The bias is computed with the gain as rounded to float16, so it corrects that rounding too.
    """
    gains = np.ones(len(points), np.float16)
    if gain:
        gains = as_gains(row_products(points, points), row_products(points, decoded))
    biases = np.zeros(len(points), np.float16)
    if bias_weight:
        missing = row_products(directions, points) - gains * row_products(directions, decoded)
        biases = as_biases(bias_weight * missing, row_norms(directions))
    return gains, biases


# If the determinant is below this share of its largest value, anchor and vector are treated as parallel.
NO_PLANE = 0.1


def anchored_corrections(
    points: Float32Array, anchors: Float32Array, decoded: Float32Array, gain: bool
) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Return the gain and bias per vector that make its estimate exact in the plane of its anchor c and its r.

    <q, c + r> is estimated by (1 + b) <q, c> + g <q, r^>. Exact for q = c and for q = r means
        b <c, c> + g <c, r^> = <c, r>
        b <r, c> + g <r, r^> = <r, r>
    with the gain in [1/4, 4]. Where c and r are parallel the gain is that of r alone. The bias is computed with
    the gain as rounded to float16, so it corrects that rounding too.
    """
    anchor_square, anchor_along = row_products(anchors, anchors), row_products(anchors, points)
    anchor_decoded = row_products(anchors, decoded)
    gains = np.ones(len(points), np.float16)
    if gain:
        square, agreement = row_products(points, points), row_products(points, decoded)
        determinant = anchor_square * agreement - anchor_along * anchor_decoded
        plane = determinant > NO_PLANE * anchor_square * np.abs(agreement)
        gains = as_gains(
            np.where(plane, anchor_square * square - np.square(anchor_along), square),
            np.where(plane, determinant, agreement),
        )
    return gains, as_biases(anchor_along - gains * anchor_decoded, anchor_square)


def row_products(left: Float32Array, right: Float32Array) -> NDArray[np.float64]:
    """Return the (n,) inner products of rows as float64, since the callers multiply them again."""
    products: NDArray[np.float64] = np.einsum("ij,ij->i", left, right).astype(np.float64)
    return products


def as_gains(exact: NDArray[np.float64], estimated: NDArray[np.float64]) -> NDArray[np.float16]:
    """Return exact / estimated, clipped to [1/4, 4]; 1 where the estimate is not positive."""
    ratios = np.divide(exact, estimated, out=np.ones_like(exact), where=estimated > 0)
    return np.clip(ratios, 0.25, 4.0).astype(np.float16)


def as_biases(missing: NDArray[np.float64], lengths: NDArray[Any]) -> NDArray[np.float16]:
    """Return missing / lengths, clipped to the range of float16; 0 where the length is 0."""
    largest = float(np.finfo(np.float16).max)
    parallel = np.divide(missing, lengths, out=np.zeros_like(missing), where=lengths > 0)
    biases: NDArray[np.float16] = np.clip(parallel, -largest, largest).astype(np.float16)
    return biases
