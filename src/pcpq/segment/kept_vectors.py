"""Vectors kept for reranking, in one of four precisions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array

LARGEST_INTEGER = {"int8": 127, "int16": 32_767}
DTYPES = {"int8": np.int8, "int16": np.int16, "float16": np.float16, "float32": np.float32}


def keep_rows(rows: Float32Array, keep: str | None) -> tuple[NDArray[np.generic], Float32Array | None]:
    """Return (n, d) rows in the precision `keep`, and for integers the (n,) unit of each row."""
    if keep is None:
        return np.empty((len(rows), 0), np.uint8), None
    if keep not in LARGEST_INTEGER:
        return rows.astype(DTYPES[keep]), None
    largest = np.abs(rows).max(axis=1)
    units = np.where(largest > 0, largest, 1.0).astype(np.float32) / np.float32(LARGEST_INTEGER[keep])
    return np.rint(rows / units[:, None]).astype(DTYPES[keep]), units


def read_rows(kept: NDArray[np.generic], units: Float32Array | None) -> Float32Array:
    """Return kept rows as float32."""
    rows = kept.astype(np.float32)
    return rows if units is None else rows * units[:, None]
