"""Plain and projective clustering by alternating minimisation: seeds, assignment, codewords.

One section is clustered at a time. A point r is approximated by alpha * c, where c is a codeword: alpha is 1
(k-means) or free (projective), and the loss is isotropic or anisotropic. The same code serves all four cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array

SEEDINGS = ("k-means++", "random", "symmetric")

# In longer sections the top singular vector is found by iterating codeword and alphas (a power method) instead
# of an eigendecomposition of a D x D matrix.
LARGEST_EIGENPROBLEM = 32


@dataclass(frozen=True)
class Section:
    """One section of the training points, with the weights of its loss."""

    points: Float32Array  # (n, D)
    ratios: Float32Array | None = None  # (n,) orthogonal / parallel weight; None: isotropic
    weights: Float32Array | None = None  # (n,) parallel weight; None: all 1


@dataclass
class Clusters:
    """Codewords of one section, and the codes of the points they were trained on."""

    codewords: Float32Array  # (k, D)
    assigned: NDArray[np.uint16]  # (n,) codeword of every point
    alphas: Float32Array | None  # (n,); None: all 1
    losses: list[float] = field(default_factory=list)  # after every round


def choose_seeds(
    points: Float32Array, n_centers: int, init: str, generator: np.random.Generator
) -> Float32Array:
    """Return the first codewords: rows of `points`, drawn as `init` says.

    "k-means++" draws rows with probability proportional to the squared distance from the rows drawn before;
    "random" draws them uniformly; "symmetric" is the variant of Statman et al. for projective clustering: rows
    of length 1, where x and -x count as the same row.
    """
    n = len(points)
    if init == "random":
        rows = generator.permutation(n)[:n_centers]
        return points[np.resize(rows, n_centers)]
    symmetric = init == "symmetric"
    if symmetric:
        lengths = np.sqrt(np.einsum("ij,ij->i", points, points))[:, None]
        points = np.divide(points, lengths, out=np.zeros_like(points), where=lengths > 0)
    rows = np.empty(n_centers, np.int64)
    _core.seed(points=points, uniforms=generator.random(n_centers), sign_symmetric=symmetric, out_rows=rows)
    return points[rows]


def assign(
    section: Section, codewords: Float32Array, *, projective: bool, by_distance: bool = False
) -> tuple[NDArray[np.uint16], Float32Array | None]:
    """Return the codeword of least loss for every point, and its best alpha if `projective`."""
    n = len(section.points)
    assigned = np.empty((n, 1), np.uint16)
    alphas = np.empty((n, 1), np.float32) if projective else None
    # At alpha = 1 the distance is the isotropic loss.
    anisotropic = section.ratios is not None and (projective or not by_distance)
    ratios = section.ratios[:, None] if anisotropic and section.ratios is not None else None
    _core.encode(
        points=section.points,
        codewords=codewords[None],
        scales=None,
        directions=None,
        ratios=ratios,
        loss="section" if anisotropic else "isotropic",
        scale="exact" if projective else "none",
        by_distance=by_distance,
        sweeps=0,
        out_codes=assigned,
        out_scales=None,
        out_alphas=alphas,
    )
    return assigned[:, 0], None if alphas is None else alphas[:, 0]


def _weighted(section: Section, clusters: Clusters) -> dict[str, Any]:
    """Return the arguments that all native sums over clusters take."""
    return {
        "points": section.points,
        "assigned": clusters.assigned,
        "codewords": clusters.codewords,
        "ratios": section.ratios,
        "weights": section.weights,
    }


def total_loss(section: Section, clusters: Clusters) -> float:
    """Return the sum of the losses of all points."""
    return float(point_losses(section, clusters).sum())


def point_losses(section: Section, clusters: Clusters) -> NDArray[np.float64]:
    """Return the (n,) loss of every point with its codeword and alpha."""
    losses = np.empty(len(section.points))
    _core.point_losses(**_weighted(section, clusters), alphas=clusters.alphas, out_losses=losses)
    return losses


def best_alphas(section: Section, clusters: Clusters) -> tuple[Float32Array, Float32Array]:
    """Return the best alpha of every point (the paper's Fact), and the curvature of its loss in alpha."""
    alphas = np.empty(len(section.points), np.float32)
    curvatures = np.empty_like(alphas)
    _core.best_alphas(**_weighted(section, clusters), out_alphas=alphas, out_curvatures=curvatures)
    return alphas, curvatures


def least_squares_codewords(section: Section, clusters: Clusters) -> Float32Array:
    """Return the best codewords for the present codes and alphas (Theorem 4.2); the means if alpha is 1.

    A codeword whose points have no weight is returned unchanged.
    """
    k, size = clusters.codewords.shape
    mass, vector = np.zeros(k), np.zeros((k, size))
    matrix = None if section.ratios is None else np.zeros((k, size, size))
    _core.codeword_sums(
        **_weighted(section, clusters),
        alphas=clusters.alphas,
        out_matrix=matrix,
        out_mass=mass,
        out_vector=vector,
    )
    if matrix is None:
        weight: NDArray[np.floating[Any]] = mass
        solved: NDArray[np.floating[Any]] = vector / np.where(mass > 0, mass, 1.0)[:, None]
    else:
        diagonal = np.arange(size)
        matrix[:, diagonal, diagonal] += mass[:, None]
        weight = np.trace(matrix, axis1=1, axis2=2)
        # A very small ridge: the matrix is singular if all alphas are nearly 0 or all weight is parallel.
        matrix[:, diagonal, diagonal] += np.where(weight > 0, 1e-9 * weight, 1.0)[:, None]
        solved = np.linalg.solve(matrix, vector[:, :, None])[:, :, 0]
    return np.where((weight > 0)[:, None], solved, clusters.codewords).astype(np.float32)


def top_directions(section: Section, clusters: Clusters) -> Float32Array:
    """Return the top right singular vector of each cluster: the best codeword for isotropic projective loss."""
    k, size = clusters.codewords.shape
    grams = np.zeros((k, size, size))
    _core.codeword_grams(
        points=section.points,
        assigned=clusters.assigned,
        codewords=clusters.codewords,
        weights=section.weights,
        out_matrix=grams,
    )
    return np.ascontiguousarray(np.linalg.eigh(grams)[1][:, :, -1], dtype=np.float32)


def cluster(
    section: Section,
    codewords: Float32Array,
    *,
    projective: bool,
    by_distance: bool = False,
    joint: bool = True,
    max_iterations: int = 25,
    tolerance: float = 1e-4,
) -> Clusters:
    """Alternate assignment and codewords, from the given codewords on, until the loss stops falling.

    `joint` solves codeword and alphas of an anisotropic projective cluster together, by iterating the two
    closed forms; without it each round takes one step of each, as the paper does.
    """
    clusters = Clusters(codewords, *assign(section, codewords, projective=projective, by_distance=by_distance))
    clusters.losses.append(total_loss(section, clusters))
    for _ in range(max_iterations):
        reseed_empty(section, clusters)
        update_codewords(section, clusters, projective=projective, joint=joint)
        clusters.assigned, clusters.alphas = assign(
            section, clusters.codewords, projective=projective, by_distance=by_distance
        )
        clusters.losses.append(total_loss(section, clusters))
        if not clusters.losses[-1] < (1.0 - tolerance) * clusters.losses[-2]:
            break
    return clusters


def update_codewords(section: Section, clusters: Clusters, *, projective: bool, joint: bool) -> None:
    """Update the codewords for the present codes, in place."""
    isotropic, size = section.ratios is None, section.points.shape[1]
    if projective and isotropic and size <= LARGEST_EIGENPROBLEM:
        clusters.codewords = top_directions(section, clusters)
        return
    clusters.codewords = least_squares_codewords(section, clusters)
    if projective and (joint or isotropic):
        loss = np.inf
        for _ in range(10):
            clusters.alphas, _curvatures = best_alphas(section, clusters)
            clusters.codewords = least_squares_codewords(section, clusters)
            before, loss = loss, total_loss(section, clusters)
            if not loss < 0.999 * before:
                break
    if projective:
        clusters.codewords = unit_rows(clusters.codewords)


def unit_rows(codewords: Float32Array) -> Float32Array:
    """Return codewords scaled to length 1, since alpha carries the length; a zero codeword stays zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", codewords, codewords, dtype=np.float64))
    return (codewords / np.where(lengths > 0, lengths, 1.0)[:, None]).astype(np.float32)


def reseed_empty(section: Section, clusters: Clusters, *, keep_alphas: bool = False) -> None:
    """Replace codewords that no point uses by the points of largest loss, in place.

    `keep_alphas` divides the new codeword by the alpha of its point, which then stays one of the few scales.
    """
    counts = np.bincount(clusters.assigned, minlength=len(clusters.codewords))
    empty = np.flatnonzero(counts == 0)
    if len(empty) == 0:
        return
    losses = point_losses(section, clusters)
    if keep_alphas and clusters.alphas is not None:
        sizes = np.abs(clusters.alphas)
        losses[sizes <= 1e-3 * sizes.max()] = 0.0  # division by such an alpha would give a huge codeword
    worst = np.argsort(-losses, kind="stable")[: len(empty)]
    worst = worst[losses[worst] > 0]
    taken = empty[: len(worst)]
    clusters.codewords, clusters.assigned = clusters.codewords.copy(), clusters.assigned.copy()
    clusters.codewords[taken] = section.points[worst]
    clusters.assigned[worst] = taken.astype(np.uint16)
    if clusters.alphas is not None and keep_alphas:
        clusters.codewords[taken] /= clusters.alphas[worst, None]
    elif clusters.alphas is not None:
        clusters.alphas = clusters.alphas.copy()
        clusters.alphas[worst] = 1.0
