"""Queries and results in pieces that Ray sends with a call.

Ray puts larger arguments and results into its object store, which takes longer to transfer them between nodes,
and stalls if several are transferred at a time.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from pcpq.io.arrays import Float32Array
from pcpq.util.batches import slices

# Bytes per piece: Ray sends arguments of up to 102,400 bytes with a call, including its own data.
PIECE = 102_000
# Bytes per call with several queries; above this, Ray takes longer per byte.
MOST_BYTES = 10 * PIECE
# Pieces per call, because Ray sends up to 10 MB with a call.
MOST_PIECES = 80


def as_pieces(queries: Float32Array) -> list[Float32Array]:
    """Return queries in pieces, as arguments of a call."""
    step = max(1, PIECE // max(1, queries[:1].nbytes))
    return [queries[some] for some in slices(len(queries), step)]


def from_pieces(pieces: Sequence[Float32Array]) -> Float32Array:
    """Return the queries that `as_pieces` divided."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def pieces_for(size: float) -> int:
    """Return the number of pieces for a result of about `size` bytes."""
    return min(max(1, -(-int(size) // PIECE)), MOST_PIECES)


def cut(result: Any, pieces: int) -> Any:
    """Return a result as it is, or pickled and divided into several pieces."""
    if pieces == 1:
        return result
    whole = memoryview(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
    step = -(-len(whole) // pieces)
    return tuple(bytes(whole[number * step : (number + 1) * step]) for number in range(pieces))


def joined(pieces: Sequence[bytes]) -> Any:
    """Return the result that `cut` divided into several pieces."""
    return pickle.loads(b"".join(pieces))
