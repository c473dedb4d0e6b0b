"""Sections: d coordinates split into m sections of equal size, padded with zeros, and their whitening."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array


@dataclass(frozen=True)
class Layout:
    """The position of each of d coordinates in m sections of `section_size`."""

    dimensions: int
    n_sections: int
    section_size: int
    columns: NDArray[np.intp]  # (d,) position of each coordinate among m * section_size

    @property
    def padded(self) -> int:
        """The number of coordinates with padding: m * section_size."""
        return self.n_sections * self.section_size

    def pad(self, rows: Float32Array) -> Float32Array:
        """Return (n, d) rows padded to (n, m * section_size)."""
        if self.padded == self.dimensions:
            return rows
        out = np.zeros((len(rows), self.padded), np.float32)
        out[:, self.columns] = rows
        return out

    def unpad(self, rows: Float32Array) -> Float32Array:
        """Return (n, m * section_size) rows without padding, (n, d)."""
        return rows if self.padded == self.dimensions else np.ascontiguousarray(rows[:, self.columns])


def make_layout(dimensions: int, section_size: int | None, n_sections: int | None) -> Layout:
    """Return a layout of sections of `section_size` coordinates, or of `n_sections` sections.

    With `section_size` the last section is padded. With `n_sections` all are nearly equal: 65 coordinates in 16
    sections are one of 5 and fifteen of 4, each padded to 5: no section is all padding.
    """
    if section_size is not None and n_sections is not None:
        raise ValueError(f"section_size={section_size} and n_sections={n_sections}: give one of the two")
    if n_sections is not None:
        if not 1 <= n_sections <= dimensions:
            raise ValueError(f"n_sections is {n_sections}; expected 1 to the vectors' dimensions, {dimensions}")
        count, size = n_sections, -(-dimensions // n_sections)
        longer = dimensions % n_sections or n_sections
        sizes = [size if j < longer else size - 1 for j in range(count)]
    else:
        size = 4 if section_size is None else section_size
        if not 1 <= size <= dimensions:
            raise ValueError(f"section_size is {size}; expected 1 to the vectors' dimensions, {dimensions}")
        count = -(-dimensions // size)
        sizes = [size] * (dimensions // size) + ([dimensions % size] if dimensions % size else [])
    columns = np.concatenate([j * size + np.arange(length) for j, length in enumerate(sizes)])
    return Layout(dimensions, count, size, columns)


def whiten(rows: Float32Array, matrices: Float32Array | None) -> Float32Array:
    """Return (n, m * D) rows, each section multiplied by its own whitening matrix of (m, D, D)."""
    if matrices is None:
        return rows
    m, size, _ = matrices.shape
    products = np.matmul(rows.reshape(-1, m, size).transpose(1, 0, 2), matrices)
    return np.ascontiguousarray(products.transpose(1, 0, 2)).reshape(len(rows), m * size)


def query_whitening(queries: Float32Array, layout: Layout) -> tuple[Float32Array, Float32Array]:
    """Return the matrices that make the query distribution of each section isotropic, and their inverses.

    The paper's eq. 1 weighs an error e by E[<q, e>^2] = e^T E[q q^T] e = |e W|^2 with W the symmetric square
    root, section by section. Directions without queries keep a thousandth of the mean weight, so that W can be
    inverted; the mean weight is 1, so that sections keep their units.

    Returns
    -------
    whitening, inverse : (m, D, D) float32
    """
    sections = (
        layout.pad(queries).reshape(len(queries), layout.n_sections, layout.section_size).astype(np.float64)
    )
    peak = np.abs(sections).max()
    sections /= peak if peak > 0 else 1.0
    moments = np.einsum("nja,njb->jab", sections, sections) / len(sections)
    mean = np.trace(moments.sum(axis=0)) / layout.dimensions
    if not mean > 0:
        raise ValueError("queries are all zero: they have no direction")
    values, vectors = np.linalg.eigh(moments / mean)
    roots = np.sqrt(np.maximum(values, 1e-3))
    whitening = np.einsum("jab,jb,jcb->jac", vectors, roots, vectors)
    inverse = np.einsum("jab,jb,jcb->jac", vectors, 1.0 / roots, vectors)
    return whitening.astype(np.float32), inverse.astype(np.float32)
