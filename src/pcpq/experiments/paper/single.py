"""Single anisotropic clusters: the excess loss of alternating updates over the best codeword and scales.

The authors of the paper suspect that their anisotropic codes have larger errors because the two are not solved
jointly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pcpq.experiments.paper.experiment import Experiment
from pcpq.io.arrays import Float32Array
from pcpq.quantizers.clustering import Section, cluster
from pcpq.quantizers.loss import parallel_weights, point_ratios
from pcpq.util.threads import map_threads

CLUSTERS = 200
STARTS = 20
PAPER_ROUNDS = 25
MANY_ROUNDS = 300


def single_clusters(
    experiment: Experiment, section_size: int, threshold: float, seed: int, clusters: int = CLUSTERS
) -> dict[str, Any]:
    """Return the excess loss over the best of many starts, for alternating and for joint updates."""
    generator = np.random.default_rng(seed)
    sizes = np.diff(experiment.starts)
    lists = np.flatnonzero(sizes >= min(2 * STARTS, sizes.max()))
    first = generator.integers(0, experiment.base.shape[1] - section_size + 1, clusters)
    chosen = [
        (int(number), int(at)) for number, at in zip(generator.choice(lists, clusters), first, strict=True)
    ]
    starts = generator.random((clusters, STARTS))

    def excess(item: int) -> tuple[float, float]:
        number, at = chosen[item]
        points = np.ascontiguousarray(experiment.residuals(number)[:, at : at + section_size])
        section = weighted_section(points, threshold)
        seeds = points[(starts[item] * len(points)).astype(np.intp)]
        best = min(final_loss(section, seed, joint=True, rounds=MANY_ROUNDS) for seed in seeds)
        paper, joint = (
            final_loss(section, seeds[0], joint=joint, rounds=PAPER_ROUNDS) for joint in (False, True)
        )
        return paper / best - 1, joint / best - 1

    found = np.array(map_threads(excess, range(clusters), experiment.threads))
    return {
        "clusters": clusters,
        "starts": STARTS,
        "threshold": threshold,
        "mean_excess_one_step_each": round(float(found[:, 0].mean()), 6),
        "mean_excess_together": round(float(found[:, 1].mean()), 6),
        "largest_excess_one_step_each": round(float(found[:, 0].max()), 6),
        "largest_excess_together": round(float(found[:, 1].max()), 6),
    }


def weighted_section(points: Float32Array, threshold: float) -> Section:
    """Return a section of points with the weights of the anisotropic loss."""
    size = points.shape[1]
    norms = np.linalg.norm(points.astype(np.float64), axis=1)
    limit = np.float32(threshold * norms.mean())
    ratios = point_ratios(points[:, None], np.array([limit]), size)[:, 0]
    return Section(points, np.ascontiguousarray(ratios), parallel_weights(norms, float(limit), size))


def final_loss(section: Section, seed: Float32Array, *, joint: bool, rounds: int) -> float:
    """Return the loss of one projective cluster, trained from one start."""
    found = cluster(
        section, seed[None].copy(), projective=True, joint=joint, max_iterations=rounds, tolerance=1e-7
    )
    return min(found.losses)
