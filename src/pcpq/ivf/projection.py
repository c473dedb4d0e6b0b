"""Projections: fewer coordinates, in which vectors are put into lists and coded.

Embeddings often vary in far fewer directions than they have dimensions. Lists and codes are then made of the
coordinates along the principal axes; candidates are still reranked by the whole vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array
from pcpq.util.threads import one_blas_thread


class PrincipalAxes(NamedTuple):
    """The directions in which rows vary, those of the largest variance first."""

    axes: NDArray[np.float64]  # (d, d)  columns of length 1
    variances: NDArray[np.float64]  # (d,)  around the origin

    @classmethod
    @one_blas_thread
    def of(cls, rows: Float32Array) -> PrincipalAxes:
        """Return the principal axes of rows.

        They go through the origin, not the mean: what rows have in common is then on the first axes, and what
        is left out of distances and products is small.
        """
        moments = (rows.T @ rows).astype(np.float64) / len(rows)
        variances, axes = np.linalg.eigh(moments)
        # The sign of an axis is not determined: its largest coordinate is positive.
        signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(axes))])
        return cls((axes * signs)[:, ::-1], np.maximum(variances[::-1], 0.0))

    def matrix(self, dimensions: int, section_size: int) -> Float32Array:
        """Return the (d, p) projection on the first p axes, ordered so that sections vary alike."""
        order = balanced_order(self.variances[:dimensions], section_size)
        return np.ascontiguousarray(self.axes[:, order], np.float32)


def balanced_order(variances: NDArray[np.float64], section_size: int) -> NDArray[np.intp]:
    """Return an order of coordinates in which the variances of each section have about the same product.

    All sections have equally many codewords, so they should have equally much to tell. From the largest
    variance on, a coordinate goes to the section whose product is the least so far (Ge et al. 2013).
    """
    p = len(variances)
    sizes = np.diff(np.append(np.arange(0, p, section_size), p))
    least = max(float(variances.max()) * 1e-9, float(np.finfo(np.float64).tiny))
    amounts = np.log(np.maximum(variances, least) / least)
    sections: list[list[int]] = [[] for _ in sizes]
    totals = np.zeros(len(sizes))
    for coordinate in np.argsort(-variances, kind="stable"):
        full = [len(section) == size for section, size in zip(sections, sizes, strict=True)]
        section = int(np.argmin(np.where(full, np.inf, totals)))
        sections[section].append(int(coordinate))
        totals[section] += amounts[coordinate]
    return np.array([coordinate for section in sections for coordinate in section], np.intp)


def project(rows: Float32Array, matrix: Float32Array | None) -> Float32Array:
    """Return the (n, p) coordinates of (n, d) rows in a projection; None leaves rows as they are."""
    if matrix is None:
        return rows
    projected = np.empty((len(rows), matrix.shape[1]), np.float32)
    _core.project(rows=np.ascontiguousarray(rows), matrix=matrix, out_rows=projected)
    return projected
