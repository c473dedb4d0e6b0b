"""Slow, plain NumPy in float64: what the library must agree with. Written from the definitions."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.integrate import quad


def weights_by_integration(threshold, norm, dimensions):
    """Parallel and orthogonal weight of a point of this norm, by numerical integration of the definition."""
    theta = np.arccos(threshold / norm)
    orthogonal = quad(lambda a: np.sin(a) ** dimensions, 0, theta, epsabs=0, epsrel=1e-12)[0]
    parallel = (dimensions - 1) * quad(
        lambda a: np.sin(a) ** (dimensions - 2) * np.cos(a) ** 2, 0, theta, epsabs=0, epsrel=1e-12
    )[0]
    return parallel, orthogonal


def split_error(error, direction):
    """The part of an error parallel to a direction, and the rest."""
    square = direction @ direction
    parallel = np.zeros_like(error) if square == 0 else (error @ direction) / square * direction
    return parallel, error - parallel


def loss(r, approximation, parallel=1.0, orthogonal=1.0, direction=None):
    """Loss of approximating r, the error split along `direction` (r itself if none)."""
    along, across = split_error(r - approximation, r if direction is None else direction)
    return parallel * (along @ along) + orthogonal * (across @ across)


def exhaustive_section(r, codewords, scales, parallel=1.0, orthogonal=1.0):
    """Least loss over every (codeword, scale) pair of one section."""
    return min(loss(r, a * c, parallel, orthogonal) for c in codewords for a in scales)


def exhaustive_vector(r, codewords, levels, parallel, orthogonal):
    """Return the least loss over one scale per vector and every signed codeword per section.

    r is (m, D), codewords are (m, k, D).
    """
    totals = []
    for level in levels:
        signed = [np.concatenate([level * c, -level * c]) for c in codewords]
        totals.append(
            sum(min(loss(r[j], c, parallel[j], orthogonal[j]) for c in signed[j]) for j in range(len(r)))
        )
    return min(totals)


def decode(codewords, codes, alphas):
    """(n, m * D): alpha times codeword. codewords (m, k, D), codes (n, m), alphas (n, m)."""
    return np.stack(
        [
            np.concatenate(
                [alphas[i, j] * codewords[j, codes[i, j]].astype(np.float64) for j in range(len(codewords))]
            )
            for i in range(len(codes))
        ]
    )


def best_scalar_loss(values, weights, n_levels):
    """Least weighted 1-D k-means loss, over every way to cut the sorted values."""
    order = np.argsort(values)
    values, weights = np.asarray(values, np.float64)[order], np.asarray(weights, np.float64)[order]
    n = len(values)

    def run(start, stop):
        w, v = weights[start:stop], values[start:stop]
        total = w.sum()
        return 0.0 if total == 0 else float((w * (v - (w @ v) / total) ** 2).sum())

    best = np.inf
    for count in range(1, min(n_levels, n) + 1):
        for cuts in itertools.combinations(range(1, n), count - 1):
            edges = [0, *cuts, n]
            best = min(best, sum(run(a, b) for a, b in itertools.pairwise(edges)))
    return best


def scalar_loss(values, weights, levels):
    """Weighted squared distance of values to their nearest level."""
    gaps = np.abs(np.asarray(values, np.float64)[:, None] - np.asarray(levels, np.float64)[None])
    return float((np.asarray(weights, np.float64) * gaps.min(axis=1) ** 2).sum())


def exact(vectors, queries, metric, k):
    """Scores and rows by brute force in float64, best first, ties to the lower row."""
    vectors, queries = vectors.astype(np.float64), queries.astype(np.float64)
    if metric == "cosine":
        vectors, queries = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (vectors, queries))
    scores = queries @ vectors.T
    if metric == "euclidean":
        scores = -np.square(queries[:, None] - vectors[None]).sum(axis=2)
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(scores, rows, axis=1)
    return (-best if metric == "euclidean" else best), rows


def recall(found, truth):
    """The share of true rows that were found."""
    return np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, truth, strict=True)])


def rows_to_scan(order, nearest, lists, target):
    """Return the mean codes in the first lists of every query's order, as many as meet a share of the nearest.

    `lists` are arrays of the list of every row: a row is met in any of them.
    """
    n_lists = order.shape[1]
    sizes = sum(np.bincount(some, minlength=n_lists) for some in lists)
    for probes in range(1, n_lists + 1):
        probed = [set(some[:probes].tolist()) for some in order]
        met = [
            any(int(some[row]) in own for some in lists)
            for own, rows in zip(probed, nearest, strict=True)
            for row in rows
        ]
        if np.mean(met) >= target:
            return float(np.mean([sizes[some[:probes]].sum() for some in order]))


def list_distances(rows, centroids):
    """Squared distances of all rows from all centroids."""
    rows, centroids = rows.astype(np.float64), centroids.astype(np.float64)
    return np.square(rows[:, None] - centroids[None]).sum(axis=2)


def softmax_weights(ranks, lengths, temperature):
    """Return the (n, L) weights of lists for queries of given (n, 1) lengths, which add up to 1."""
    ranks, lengths = np.asarray(ranks, np.float64), np.asarray(lengths, np.float64)
    best = ranks.max(axis=1, keepdims=True)
    above = best - ranks.mean(axis=1, keepdims=True)
    steps = np.maximum(temperature * lengths, (0.06 if temperature > 0 else 0.12) * above)
    weights = np.exp((ranks - best) / steps)
    return weights / weights.sum(axis=1, keepdims=True)
