"""Vectors in two dimensions, by their principal components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array

Table = NDArray[np.float64]
# Vectors of the subspace iteration and its steps: more than two, because they converge faster than two would.
SUBSPACE, STEPS = 8, 30


@dataclass(frozen=True, eq=False)
class Projection:
    """The two directions in which vectors vary most."""

    mean: Table  # (d,)
    directions: Table  # (d, 2), orthonormal
    low: Table  # (2,) of the coordinates that become 0
    size: float  # of the coordinates that become 1, the same for both directions
    shares: tuple[float, float]  # of the variance, by direction

    @classmethod
    def of(cls, vectors: Float32Array) -> Projection:
        """Return the projection of (n, d) vectors, n > 0; the same vectors always give the same one."""
        mean = vectors.mean(axis=0, dtype=np.float64)
        rows = vectors.astype(np.float64) - mean
        directions = principal_directions(rows)
        places = rows @ directions
        total = float((rows**2).sum())
        shares = (places**2).sum(axis=0) / total if total > 0 else np.zeros(2)
        low, high = places.min(axis=0), places.max(axis=0)
        size = float((high - low).max()) or 1.0
        low = low - (size - (high - low)) / 2  # both directions have the same scale, and the middle is shared
        return cls(mean, directions, low, size, (float(shares[0]), float(shares[1])))

    def places(self, vectors: Float32Array) -> Table:
        """Return the (n, 2) places of vectors; those that the projection was made of are from 0 to 1."""
        found: Table = ((vectors.astype(np.float64) - self.mean) @ self.directions - self.low) / self.size
        return found


def principal_directions(rows: Table) -> Table:
    """Return the (d, 2) first principal directions of centred rows, by subspace iteration.

    It takes n d operations per step and no (d, d) matrix, so that long vectors are as quick as short ones.
    """
    d = rows.shape[1]
    basis = np.random.default_rng(0).normal(size=(d, min(SUBSPACE, d)))
    basis, _ = np.linalg.qr(basis)
    for _ in range(STEPS):
        basis, _ = np.linalg.qr(rows.T @ (rows @ basis))
    _, _, turned = np.linalg.svd(rows @ basis, full_matrices=False)
    found = basis @ turned.T
    directions = np.zeros((d, 2))
    directions[:, : min(2, found.shape[1])] = found[:, :2]
    # A direction and its opposite are equally good: the largest coordinate is positive.
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    oriented: Table = directions * np.where(signs == 0, 1.0, signs)
    return oriented
