"""Rotations: how vectors are turned before they are cut into sections."""

from __future__ import annotations

import numpy as np

from pcpq.io.arrays import Float32Array
from pcpq.quantizers import Quantizer

# Rows that a rotation is learned from, and how often codes and rotation follow each other.
LEARNING_ROWS = 20_000
LEARNING_ROUNDS = 8


def fit_rotation(
    kind: str | None, rows: Float32Array, quantizer: Quantizer, generator: np.random.Generator
) -> Float32Array | None:
    """(d, d) orthogonal matrix that rows are multiplied by; None: they stay."""
    if kind is None:
        return None
    matrix = random_rotation(rows.shape[1], generator)
    return matrix if kind == "random" else learned_rotation(rows[:LEARNING_ROWS], quantizer, matrix)


def random_rotation(dimensions: int, generator: np.random.Generator) -> Float32Array:
    """An orthogonal matrix, evenly among all."""
    q, r = np.linalg.qr(generator.normal(size=(dimensions, dimensions)))
    matrix: Float32Array = (q * np.sign(np.diag(r))).astype(np.float32)
    return matrix


def learned_rotation(rows: Float32Array, quantizer: Quantizer, matrix: Float32Array) -> Float32Array:
    """Codes for the rotation, then the rotation that suits these codes best (Procrustes), in turn."""
    for _ in range(LEARNING_ROUNDS):
        turned = rows @ matrix
        decoded = quantizer.fit(turned).decode(quantizer.encode(turned))
        left, _, right = np.linalg.svd(rows.T.astype(np.float64) @ decoded)
        matrix = (left @ right).astype(np.float32)
    return matrix


def turn(rows: Float32Array, matrix: Float32Array | None) -> Float32Array:
    """Rows as the rotation has them."""
    return rows if matrix is None else rows @ matrix
