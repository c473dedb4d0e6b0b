"""Codes of vectors, and the trained model that makes them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array
from pcpq.quantizers.sections import Layout


@dataclass(frozen=True)
class Codes:
    """The codes of n vectors in m sections.

    Attributes
    ----------
    codes : (n, m) uint8 or uint16, the index of the codeword of every section. With one scale per vector,
        i + k stands for codeword i of k with the opposite sign
    scales : (n, m) uint8, the index of the scale of every section; (n, 1) uint8 with one scale per vector;
        (n, m) float32, the scale itself, if it is exact; None without scales
    gains : (n,) float16 or None, factors of the estimated inner products
    biases : (n,) float16 or None, terms added to the estimates: times `unit_` and the length of the query, or
        with bias="anchor" times <query, anchor>
    """

    codes: NDArray[np.unsignedinteger[Any]]
    scales: NDArray[Any] | None = None
    gains: NDArray[np.float16] | None = None
    biases: NDArray[np.float16] | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Codes:
        """Return the codes of some rows."""
        return Codes(*(None if field is None else field[rows] for field in self._fields()))  # type: ignore[arg-type]

    @property
    def centers(self) -> NDArray[np.unsignedinteger[Any]]:
        """The former name of `codes`."""
        warnings.warn("Codes.centers is now Codes.codes", DeprecationWarning, stacklevel=2)
        return self.codes

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays in memory, where an index takes one or two bytes. They are not packed to bits."""
        return sum(field.nbytes for field in self._fields() if field is not None)

    def _fields(self) -> tuple[NDArray[Any] | None, ...]:
        return self.codes, self.scales, self.gains, self.biases


@dataclass(frozen=True)
class Model:
    """Codewords, scales and settings that encode, decode and scores need. Lengths are in units of `unit`.

    `codewords` are given in the coordinates in which the loss is isotropic over queries (after
    `whitening`); `readout` are the codewords in the coordinates of the vectors, one for every value that a code
    can have.
    """

    layout: Layout
    unit: float
    codewords: Float32Array  # (m, k, D)
    readout: Float32Array  # (m, k or 2k, D)
    scales: Float32Array | None = None  # (m, s) ascending
    vector_levels: Float32Array | None = None  # (s,) one scale, or norm, per vector
    whitening: Float32Array | None = None  # (m, D, D)
    section_thresholds: Float32Array | None = None  # (m,)
    vector_threshold: float = 0.0
    gain: bool = False
    bias_weight: float = 0.0  # 0: no bias
    anchored: bool = False  # the bias is multiplied by <query, anchor>

    @property
    def code_dtype(self) -> type[np.unsignedinteger[Any]]:
        """The dtype of codeword indices: uint8 if they fit, uint16 otherwise."""
        return np.uint8 if self.readout.shape[1] <= 256 else np.uint16
