"""Rotations of vectors before they are split into sections."""

from __future__ import annotations

import numpy as np

from pcpq.io.arrays import Float32Array
from pcpq.quantizers import Quantizer
from pcpq.util.threads import one_blas_thread

# Rows that a rotation is trained on, and rounds of alternating between codes and rotation.
LEARNING_ROWS = 20_000
LEARNING_ROUNDS = 8


def fit_rotation(
    kind: str | None, rows: Float32Array, quantizer: Quantizer, generator: np.random.Generator
) -> Float32Array | None:
    """Return the (d, d) orthogonal matrix that rotates rows; None for no rotation."""
    if kind is None:
        return None
    matrix = random_rotation(rows.shape[1], generator)
    return matrix if kind == "random" else learned_rotation(rows[:LEARNING_ROWS], quantizer, matrix)


def random_rotation(dimensions: int, generator: np.random.Generator) -> Float32Array:
    """Return an orthogonal matrix from the uniform distribution."""
    q, r = np.linalg.qr(generator.normal(size=(dimensions, dimensions)))
    matrix: Float32Array = (q * np.sign(np.diag(r))).astype(np.float32)
    return matrix


def learned_rotation(rows: Float32Array, quantizer: Quantizer, matrix: Float32Array) -> Float32Array:
    """Return a rotation that suits the codes.

    Alternately encodes the rotated rows and solves for the rotation that fits these codes best (Procrustes).
    """
    for _ in range(LEARNING_ROUNDS):
        rotated = rows @ matrix
        decoded = quantizer.fit(rotated).decode(quantizer.encode(rotated))
        left, _, right = np.linalg.svd(rows.T.astype(np.float64) @ decoded)
        matrix = (left @ right).astype(np.float32)
    return matrix


@one_blas_thread
def rotate(rows: Float32Array, matrix: Float32Array | None) -> Float32Array:
    """Return the rows rotated by a matrix; None leaves them as they are."""
    return rows if matrix is None else rows @ matrix
