"""Weights of the anisotropic loss: how much the parallel and the orthogonal part of an error count.

For a point of norm y in D dimensions only queries with <q, x> >= t matter, t the threshold. With
theta = arccos(t / y) (the paper prints t / y) the error orthogonal and parallel to x weigh

    orthogonal(y) = integral of sin^D from 0 to theta
    parallel(y)   = (D - 1) * integral of (sin^(D-2) - sin^D) from 0 to theta
                  = orthogonal(y) + sin^(D-1)(theta) * cos(theta)

so parallel >= orthogonal. Both are divided here by their common limit for y >> t, the integral up to pi/2.
"""

from __future__ import annotations

from math import lgamma, log, pi

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array

Float64Array = NDArray[np.float64]

# Entries of the ratio table over t / y in [0, 1]; the error of linear interpolation is then below 1e-6 for
# sections of up to 64 coordinates.
TABLE_SIZE = 4097


def log_full_integral(dimensions: int) -> float:
    """Return the logarithm of the integral of sin^D from 0 to pi/2."""
    return 0.5 * log(pi) + lgamma(0.5 * (dimensions + 1)) - lgamma(0.5 * dimensions + 1) - log(2.0)


def _beta_fraction(a: float, b: float, z: Float64Array) -> Float64Array:
    """Return the continued fraction of the incomplete beta function I_z(a, b), by the modified Lentz method."""
    tiny = 1e-300
    c: Float64Array = np.ones_like(z)
    d: Float64Array = 1.0 - (a + b) * z / (a + 1.0)
    d = 1.0 / np.where(np.abs(d) < tiny, tiny, d)
    fraction: Float64Array = d.copy()
    for i in range(1, 1000):
        before = fraction.copy()
        even = i * (b - i) * z / ((a + 2 * i - 1) * (a + 2 * i))
        odd = -(a + i) * (a + b + i) * z / ((a + 2 * i) * (a + 2 * i + 1))
        for term in (even, odd):
            d = 1.0 + term * d
            d = 1.0 / np.where(np.abs(d) < tiny, tiny, d)
            c = 1.0 + term / c
            c = np.where(np.abs(c) < tiny, tiny, c)
            fraction = fraction * (c * d)
        if np.all(np.abs(fraction - before) <= 1e-15 * np.abs(fraction)):
            break
    return fraction


def anisotropic_weights(relative_threshold: Float64Array, dimensions: int) -> tuple[Float64Array, Float64Array]:
    """Return the weights for x = t / y, the threshold in units of the point's norm.

    The incomplete beta function gives the integral: with z = sin^2(theta) = 1 - x^2 and a = (D + 1) / 2,
    orthogonal = I_z(a, 1/2). Where z is small its continued fraction converges at once, and the common
    factor sin^(D+1) cos cancels from the ratio; elsewhere the complement I_(1-z)(1/2, a) converges fast. This
    keeps full precision at every D, unlike the recurrence in D.

    Parameters
    ----------
    relative_threshold : (n,) float64, t / y in [0, 1); at or over 1 no query qualifies
    dimensions : D >= 2

    Returns
    -------
    log_parallel : (n,) float64, log of the parallel weight; -inf where no query qualifies
    ratio : (n,) float64, orthogonal / parallel in [0, 1]; 1 where no query qualifies
    """
    x = np.asarray(relative_threshold, np.float64)
    log_parallel = np.full(x.shape, -np.inf)
    ratio = np.ones(x.shape)
    a = 0.5 * (dimensions + 1)
    z = (1.0 - x) * (1.0 + x)
    full = log_full_integral(dimensions)
    split = (a + 1.0) / (a + 2.5)

    low = (x < 1.0) & (z <= split)
    if low.any():
        # orthogonal = sin^(D+1) cos fraction / (D + 1), so parallel / orthogonal = 1 + 1 / part
        part = z[low] * _beta_fraction(a, 0.5, z[low]) / (dimensions + 1)
        ratio[low] = part / (part + 1.0)
        log_parallel[low] = np.log(part + 1.0) + 0.5 * (dimensions - 1) * np.log(z[low]) + np.log(x[low]) - full
    high = (x < 1.0) & (z > split)
    if high.any():
        w = x[high] ** 2
        front = np.exp(0.5 * (dimensions + 1) * np.log1p(-w) + np.log(np.maximum(x[high], 1e-300)) - full)
        orthogonal = 1.0 - front * _beta_fraction(0.5, a, w)
        parallel = orthogonal + front / (1.0 - w)
        ratio[high] = orthogonal / parallel
        log_parallel[high] = np.log(parallel)
    return log_parallel, ratio


def ratio_table(dimensions: int) -> Float32Array:
    """Return the ratio orthogonal / parallel weight at t / y = 0, 1/4096, ..., 1; at 1 its limit, 0."""
    x = np.linspace(0.0, 1.0, TABLE_SIZE)
    ratio = anisotropic_weights(x, dimensions)[1]
    ratio[-1] = 0.0
    return ratio.astype(np.float32)


def point_ratios(sections: Float32Array, thresholds: Float32Array, dimensions: int) -> Float32Array:
    """Return the (n, m) ratios orthogonal / parallel weight of (n, m, D) points with (m,) thresholds.

    `dimensions` is the dimension of the loss: D for single sections, that of the vectors for whole vectors.
    """
    out = np.empty(sections.shape[:2], np.float32)
    if dimensions < 2:  # no orthogonal part: isotropic
        out.fill(1.0)
    else:
        table = ratio_table(dimensions)
        _core.section_ratios(points=sections, thresholds=thresholds, table=table, out_ratios=out)
    return out


# Training weight of points at or under the threshold: spare codewords and scales then serve them.
LEAST_WEIGHT = 1e-6


def parallel_weights(norms: Float64Array, threshold: float, dimensions: int) -> Float32Array:
    """Return the (n,) parallel weights for training, the largest 1; LEAST_WEIGHT at or under the threshold."""
    log_parallel = np.full(norms.shape, -np.inf)
    over = norms > threshold
    log_parallel[over] = anisotropic_weights(threshold / norms[over], dimensions)[0]
    peak = log_parallel.max(initial=-np.inf)
    weights = np.exp(log_parallel - (peak if np.isfinite(peak) else 0.0))
    return np.maximum(weights, LEAST_WEIGHT).astype(np.float32)
