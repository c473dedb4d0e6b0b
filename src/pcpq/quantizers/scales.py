"""Scalar quantisation: the best s levels for weighted numbers, exact up to binning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array

Float64Array = NDArray[np.float64]

# Half of the bins hold equally many values, half are equally equal_width: the first resolve dense values, the
# second keep outliers from being averaged with them.
MAX_BINS = 2048


def bin_values(
    values: NDArray[np.floating[Any]], weights: NDArray[np.floating[Any]]
) -> tuple[Float64Array, Float64Array]:
    """Return ascending bin means and bin weights: one bin per distinct value, but at most MAX_BINS."""
    order = np.argsort(values, kind="stable")
    ordered = values[order].astype(np.float64)
    weight = weights[order].astype(np.float64)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(starts) > MAX_BINS:
        n = len(ordered)
        dense = np.arange(MAX_BINS // 2) * n // (MAX_BINS // 2)
        equal_width = np.searchsorted(ordered, np.linspace(ordered[0], ordered[-1], MAX_BINS // 2 + 1)[:-1])
        starts = np.unique(np.concatenate([dense, equal_width]))
    bin_weight = np.add.reduceat(weight, starts)
    bin_sum = np.add.reduceat(weight * ordered, starts)
    # The mean of a bin without weight does not affect the levels; it only keeps the order.
    mean = np.where(bin_weight > 0, bin_sum / np.where(bin_weight > 0, bin_weight, 1.0), ordered[starts])
    return np.maximum.accumulate(mean), bin_weight


def best_levels(
    values: NDArray[np.floating[Any]], weights: NDArray[np.floating[Any]], n_levels: int
) -> Float32Array:
    """Return the n_levels ascending levels that minimise the sum of w * (value - nearest level)^2.

    With fewer distinct values than levels, the last level is repeated.
    """
    bins, bin_weights = bin_values(values, weights)
    levels = np.empty(n_levels)
    _core.quantize_scalars(values=bins, weights=bin_weights, out_levels=levels)
    return np.maximum.accumulate(levels).astype(np.float32)


def nearest_level(values: NDArray[np.floating[Any]], levels: Float32Array) -> NDArray[np.uint8]:
    """Return the index of the nearest of ascending levels for every value."""
    return np.searchsorted(0.5 * (levels[1:] + levels[:-1]), values).astype(np.uint8)
