"""Statistics of the rows of each list, from which a scan guesses which rows are candidates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array


class Spread(NamedTuple):
    """How rows spread around the base of their list, so that a scan can guess what is worth a look."""

    reach: float  # no decoded row is longer
    sums: NDArray[np.float64]  # (3, L) of decoded rows' squared lengths, of biases, and of their squares
    residuals: float  # the sum of rows' squared distances from their centers

    @classmethod
    def of(
        cls,
        n_lists: int,
        lists: NDArray[np.int32],
        residuals: Float32Array,
        decoded: Float32Array,
        bias: Float32Array | None,
    ) -> Spread:
        """Of rows of some lists."""
        squares = np.einsum("ij,ij->i", decoded, decoded)
        columns = [squares] if bias is None else [squares, bias, bias * bias]
        sums = np.zeros((3, n_lists))
        for total, column in zip(sums, columns, strict=False):
            total += np.bincount(lists, weights=column, minlength=n_lists)
        apart = float(np.einsum("ij,ij->", residuals, residuals, dtype=np.float64))
        return cls(float(np.sqrt(squares.max())) * 1.001, sums, apart)

    def joined(self, other: Spread) -> Spread:
        """Of the rows of both."""
        return Spread(max(self.reach, other.reach), self.sums + other.sums, self.residuals + other.residuals)

    def scaled(self, shares: NDArray[np.float64], share: float) -> Spread:
        """About that of (L,) shares of every list's rows, and a share of all."""
        return Spread(self.reach, self.sums * shares, self.residuals * share)

    def shapes(self, counts: NDArray[np.int64], dimensions: int) -> Float32Array:
        """(3, L) variance of scores by codes, for a query of length 1; mean and variance of biases."""
        squares, biases, bias_squares = self.sums / np.maximum(counts, 1)
        variances = np.maximum(bias_squares - biases**2, 0.0)
        most = np.finfo(np.float32).max  # which squares of very large vectors exceed
        return np.stack([squares / dimensions, biases, variances]).clip(-most, most).astype(np.float32)
