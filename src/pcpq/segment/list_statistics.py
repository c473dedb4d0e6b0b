"""Statistics of the rows of each list, from which a scan estimates the score that a candidate needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array


class ListStatistics(NamedTuple):
    """Statistics of how rows are distributed within their lists."""

    reach: float  # upper bound of the lengths of decoded rows
    sums: NDArray[np.float64]  # (3, L) sums: squared lengths of decoded rows, biases, squared biases
    residuals: float  # sum of squared distances of rows from their centroids

    @classmethod
    def of(
        cls,
        n_lists: int,
        lists: NDArray[np.int32],
        residuals: Float32Array,
        decoded: Float32Array,
        bias: Float32Array | None,
    ) -> ListStatistics:
        """Return the statistics of rows, given their lists."""
        squares = np.einsum("ij,ij->i", decoded, decoded)
        columns = [squares] if bias is None else [squares, bias, bias * bias]
        sums = np.zeros((3, n_lists))
        for total, column in zip(sums, columns, strict=False):
            total += np.bincount(lists, weights=column, minlength=n_lists)
        apart = float(np.einsum("ij,ij->", residuals, residuals, dtype=np.float64))
        return cls(float(np.sqrt(squares.max())) * 1.001, sums, apart)

    def joined(self, other: ListStatistics) -> ListStatistics:
        """Return the statistics of the rows of both."""
        return ListStatistics(
            max(self.reach, other.reach), self.sums + other.sums, self.residuals + other.residuals
        )

    def scaled(self, shares: NDArray[np.float64], share: float) -> ListStatistics:
        """Return an estimate for (L,) shares of the rows of each list; `share` is that of all rows."""
        return ListStatistics(self.reach, self.sums * shares, self.residuals * share)

    def shapes(self, counts: NDArray[np.int64], dimensions: int) -> Float32Array:
        """Return (3, L) variances of code scores for a query of length 1, and means and variances of biases."""
        squares, biases, bias_squares = self.sums / np.maximum(counts, 1)
        variances = np.maximum(bias_squares - biases**2, 0.0)
        most = np.finfo(np.float32).max  # squares of very large vectors exceed it
        return np.stack([squares / dimensions, biases, variances]).clip(-most, most).astype(np.float32)
