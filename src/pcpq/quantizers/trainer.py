"""Training of a quantizer, the same steps for all six.

Sections are clustered one by one (`clustering.py`); their alphas are then quantized to s scales; with `refine`,
codes, codewords and scales are improved alternately until the loss stops falling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array
from pcpq.quantizers.clustering import (
    Clusters,
    Section,
    best_alphas,
    choose_seeds,
    cluster,
    least_squares_codewords,
    reseed_empty,
)
from pcpq.quantizers.codes import Model
from pcpq.quantizers.encoder import row_norms, unit_vectors
from pcpq.quantizers.loss import parallel_weights, point_ratios
from pcpq.quantizers.options import Options
from pcpq.quantizers.scales import best_levels
from pcpq.quantizers.sections import Layout, whiten
from pcpq.util.threads import map_threads

# Clustering stops when a round lowers the loss by less than this share; earlier if refinement follows.
TOLERANCE = 1e-4
TOLERANCE_BEFORE_REFINEMENT = 1e-3
REFINE_ROUNDS = 20
# Overrelaxation: step of refinement, in units of the least-squares step.
STRIDE = 1.7


@dataclass
class Trained:
    """A trained model, and the loss of every section after every round of clustering."""

    model: Model
    losses: list[NDArray[np.float64]]


def train(
    options: Options,
    layout: Layout,
    unit: float,
    points: Float32Array,
    directions: Float32Array,
    whitening: tuple[Float32Array, Float32Array] | None,
) -> Trained:
    """Train codewords and scales on padded rows in working units, (n, m * D)."""
    norm_levels = None
    if options.scale == "norm":
        norms = row_norms(points)
        norm_levels = best_levels(norms, np.ones_like(norms), options.n_scales)
        points = unit_vectors(points, norms)
    matrices, inverses = (None, None) if whitening is None else whitening
    whitened = whiten(points, matrices)
    sections, thresholds = weigh_sections(options, layout, whitened)
    clusterings = cluster_sections(options, sections)
    losses = [np.array(found.losses) for found in clusterings]

    scales, vector_levels = None, norm_levels
    if options.scale == "quantized":
        scales = quantize_section_scales(options, sections, clusterings)
    elif options.scale == "vector":
        vector_levels = quantize_vector_scales(options, sections, clusterings)
    codewords = np.stack([found.codewords for found in clusterings])
    model = Model(
        layout=layout,
        unit=unit,
        codewords=codewords,
        readout=read_out(codewords, inverses, signed=options.scale == "vector"),
        scales=scales,
        vector_levels=vector_levels,
        whitening=matrices,
        section_thresholds=thresholds,
        vector_threshold=options.threshold * float(row_norms(whiten(directions, matrices)).mean()),
    )
    return Trained(model, losses)


def read_out(codewords: Float32Array, inverses: Float32Array | None, *, signed: bool) -> Float32Array:
    """Return the codewords for every value of a code, in the coordinates of the vectors."""
    if inverses is not None:
        codewords = np.matmul(codewords, inverses)
    return np.concatenate([codewords, -codewords], axis=1) if signed else codewords


def weigh_sections(
    options: Options, layout: Layout, points: Float32Array
) -> tuple[list[Section], Float32Array | None]:
    """Split the points into sections with the weights of their loss; return these and the (m,) thresholds."""
    split = points.reshape(len(points), layout.n_sections, layout.section_size)
    rows = [np.ascontiguousarray(split[:, j]) for j in range(layout.n_sections)]
    if not options.anisotropic or layout.section_size < 2:
        return [Section(row) for row in rows], None
    norms = np.stack([row_norms(row) for row in rows], axis=1).astype(np.float64)  # (n, m)
    thresholds = (options.threshold * norms.mean(axis=0)).astype(np.float32)
    ratios = point_ratios(split, thresholds, layout.section_size)

    def weigh(j: int) -> Section:
        if not (norms[:, j] > thresholds[j]).any():  # no point exceeds the threshold: isotropic
            return Section(rows[j])
        weights = parallel_weights(norms[:, j], float(thresholds[j]), layout.section_size)
        return Section(rows[j], np.ascontiguousarray(ratios[:, j]), weights)

    return map_threads(weigh, range(layout.n_sections), options.threads), thresholds


def cluster_sections(options: Options, sections: list[Section]) -> list[Clusters]:
    """Cluster every section, each with its own random stream."""
    streams = np.random.default_rng(options.seed).spawn(len(sections))
    size = sections[0].points.shape[1]
    if not isinstance(options.init, str):
        wanted = (len(sections), options.n_centers, size)
        if options.init.shape != wanted:
            raise ValueError(
                f"init has shape {options.init.shape}; expected {wanted}: (sections, codewords, size)"
            )

    refined = options.refine and options.scale in ("quantized", "vector")
    tolerance = TOLERANCE_BEFORE_REFINEMENT if refined else TOLERANCE

    def cluster_one(j: int) -> Clusters:
        if isinstance(options.init, str):
            seeds = choose_seeds(sections[j].points, options.n_centers, options.init, streams[j])
        else:
            seeds = np.ascontiguousarray(options.init[j])
        return cluster(
            sections[j],
            seeds,
            projective=options.projective,
            by_distance=options.assignment == "distance",
            joint=options.refine,
            max_iterations=options.max_iterations,
            tolerance=tolerance,
        )

    return map_threads(cluster_one, range(len(sections)), options.threads)


def settle_signs(found: Clusters) -> None:
    """Flip codewords whose alphas have a negative sum: scales then need fewer negative values."""
    assert found.alphas is not None
    sums = np.bincount(found.assigned, weights=found.alphas, minlength=len(found.codewords))
    signs = np.where(sums < 0, -1.0, 1.0).astype(np.float32)
    found.codewords = found.codewords * signs[:, None]
    found.alphas = found.alphas * signs[found.assigned]


def normalise_alphas(found: Clusters) -> None:
    """Move the root mean square of a section's alphas into its codewords.

    Sections that share their scales then have alphas of the same size.
    """
    assert found.alphas is not None
    size = float(np.sqrt(np.mean(np.square(found.alphas, dtype=np.float64))))
    if size > 0:
        found.alphas = (found.alphas / size).astype(np.float32)
        found.codewords = (found.codewords * size).astype(np.float32)


def quantize_section_scales(
    options: Options, sections: list[Section], clusterings: list[Clusters]
) -> Float32Array:
    """Return the (m, s) scales, shared or one set per section; with `refine`, change codewords in place."""
    for found in clusterings:
        settle_signs(found)
        if not options.paper:
            normalise_alphas(found)

    def ideal(j: int) -> tuple[Float32Array, Float32Array]:
        return best_alphas(sections[j], clusterings[j])

    ideals = map_threads(ideal, range(len(sections)), options.threads)
    if options.shared_scales:
        alphas, curvatures = (np.concatenate(parts) for parts in zip(*ideals, strict=True))
        scales = np.tile(best_levels(alphas, curvatures, options.n_scales), (len(sections), 1))
    else:
        scales = np.stack(
            map_threads(lambda pair: best_levels(*pair, options.n_scales), ideals, options.threads)
        )
    return refine(options, sections, clusterings, scales) if options.refine else scales


def assign_pairs(
    options: Options, section: Section, codewords: Float32Array, scales: Float32Array
) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Return the (codeword, scale) pair of least loss for every point of a section."""
    n = len(section.points)
    assigned, levels = np.empty((n, 1), np.uint16), np.empty((n, 1), np.uint8)
    _core.encode(
        points=section.points,
        codewords=codewords[None],
        scales=scales[None],
        directions=None,
        ratios=None if section.ratios is None else section.ratios[:, None],
        loss="isotropic" if section.ratios is None else "section",
        scale="quantized",
        by_distance=options.assignment == "distance",
        sweeps=0,
        out_codes=assigned,
        out_scales=levels,
        out_alphas=None,
    )
    return assigned[:, 0], levels[:, 0]


def refine(
    options: Options, sections: list[Section], clusterings: list[Clusters], scales: Float32Array
) -> Float32Array:
    """Improve codes, codewords and scales alternately, and return the scales; codewords then carry length.

    Codewords and scales are solved by least squares. Every step but the last is longer than the least-squares
    step (STRIDE): least squares alone converges slowly here.
    """
    before, energy = np.inf, sum(weighted_energy(section) for section in sections)
    for done in range(REFINE_ROUNDS):
        stride = np.float32(STRIDE if done + 1 < REFINE_ROUNDS else 1)

        def improve(j: int, scales: Float32Array = scales, stride: np.float32 = stride) -> Float64Sums:
            section, found = sections[j], clusterings[j]
            found.assigned, levels = assign_pairs(options, section, found.codewords, scales[j])
            found.alphas = scales[j][levels]
            reseed_empty(section, found, keep_alphas=True)
            solved = least_squares_codewords(section, found)
            found.codewords = found.codewords + stride * (solved - found.codewords)
            return scale_sums(section, found, levels, scales.shape[1])

        sums = np.stack(map_threads(improve, range(len(sections)), options.threads))
        # The loss of a point is a parabola in its scale: the sum over all points, at the scales they have.
        loss = energy + float(
            (sums[:, 1] * np.square(scales, dtype=np.float64) - 2 * sums[:, 0] * scales).sum()
        )
        scales = np.sort(scales + stride * (solve_scales(options, sums, scales) - scales), axis=1)
        if not loss < (1.0 - TOLERANCE) * before:
            break
        before = loss
    return scales


Float64Sums = NDArray[np.float64]


def weighted_energy(section: Section) -> float:
    """Return the loss of approximating every point by zero."""
    squares = np.einsum("ij,ij->i", section.points, section.points, dtype=np.float64)
    return float(squares.sum() if section.weights is None else squares @ section.weights)


def scale_sums(section: Section, found: Clusters, levels: NDArray[np.uint8], n_scales: int) -> Float64Sums:
    """Return (2, s) sums over the points of every scale: of curvature * best alpha, and of curvature."""
    alphas, curvatures = best_alphas(section, found)
    pulls = np.bincount(levels, weights=curvatures.astype(np.float64) * alphas, minlength=n_scales)
    return np.stack([pulls, np.bincount(levels, weights=curvatures, minlength=n_scales)])


def solve_scales(options: Options, sums: Float64Sums, scales: Float32Array) -> Float32Array:
    """Return the least-squares scales from (m, 2, s) sums; a scale without points is left unchanged."""
    if options.shared_scales:
        sums = np.broadcast_to(sums.sum(axis=0), sums.shape)
    pulls, masses = sums[:, 0], sums[:, 1]
    solved = np.where(masses > 0, pulls / np.where(masses > 0, masses, 1.0), scales)
    return np.sort(solved.astype(np.float32), axis=1)


def quantize_vector_scales(
    options: Options, sections: list[Section], clusterings: list[Clusters]
) -> Float32Array:
    """Return the (s,) scales for one scale per vector; with `refine`, change codewords in place.

    Every section has a sign. The first scale of a vector is the root mean square of its sections' alphas, each
    in units of its section's.
    """
    for found in clusterings:
        normalise_alphas(found)
    squares = sum(
        np.square(found.alphas, dtype=np.float64) for found in clusterings if found.alphas is not None
    )
    sizes = np.sqrt(squares / len(sections))
    levels = best_levels(sizes, np.ones_like(sizes), options.n_scales)
    rounds = REFINE_ROUNDS if options.refine else 0
    for _ in range(rounds):
        codewords = np.stack([found.codewords for found in clusterings])
        signed, chosen = assign_vector_scales(sections, codewords, levels)

        def improve(
            j: int,
            signed: NDArray[np.uint16] = signed,
            chosen: NDArray[np.uint8] = chosen,
            levels: Float32Array = levels,
        ) -> Float64Sums:
            found = clusterings[j]
            signs = np.where(signed[:, j] >= options.n_centers, np.float32(-1), np.float32(1))
            found.assigned = signed[:, j] % np.uint16(options.n_centers)
            found.alphas = levels[chosen] * signs
            found.codewords = least_squares_codewords(sections[j], found)
            # The sign of the codeword is moved to the point, so that the scale stays positive.
            signed_section = replace(sections[j], points=sections[j].points * signs[:, None])
            return scale_sums(signed_section, found, chosen, len(levels))

        sums = np.stack(map_threads(improve, range(len(sections)), options.threads))
        levels = solve_scales(replace(options, shared_scales=True), sums, levels[None])[0]
    return levels


def assign_vector_scales(
    sections: list[Section], codewords: Float32Array, levels: Float32Array
) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Return the (n, m) signed codewords and the (n,) scale of least loss for every vector."""
    n, m = len(sections[0].points), len(sections)
    points = np.concatenate([section.points for section in sections], axis=1)
    anisotropic = any(section.ratios is not None for section in sections)
    ratios = np.ones((n, m), np.float32) if anisotropic else None
    if ratios is not None:
        for j, section in enumerate(sections):
            if section.ratios is not None:
                ratios[:, j] = section.ratios
    signed, chosen = np.empty((n, m), np.uint16), np.empty((n, 1), np.uint8)
    _core.encode(
        points=points,
        codewords=codewords,
        scales=np.tile(levels, (m, 1)),
        directions=None,
        ratios=ratios,
        loss="section" if anisotropic else "isotropic",
        scale="vector",
        by_distance=False,
        sweeps=0,
        out_codes=signed,
        out_scales=chosen,
        out_alphas=None,
    )
    return signed, chosen[:, 0]
