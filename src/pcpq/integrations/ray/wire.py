"""Queries and answers in pieces that travel with the calls themselves.

Ray puts larger arguments and results into its object store and moves them between nodes through that, which
takes longer, and stalls where several are on their way.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from pcpq.io.arrays import Float32Array
from pcpq.util.batches import slices

# Bytes of a piece: Ray sends up to 102,400 with a call, and some of them are not ours.
PIECE = 102_000
# Bytes of a call that several queries share: Ray takes longer a byte for more.
MOST_BYTES = 10 * PIECE
# Ray sends up to 10 MB with a call.
MOST_PIECES = 80


def as_pieces(queries: Float32Array) -> list[Float32Array]:
    """Arguments of a call."""
    step = max(1, PIECE // max(1, queries[:1].nbytes))
    return [queries[some] for some in slices(len(queries), step)]


def from_pieces(pieces: Sequence[Float32Array]) -> Float32Array:
    """The queries again."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def pieces_for(size: float) -> int:
    """Into how many pieces a result is cut that has about so many bytes."""
    return min(max(1, -(-int(size) // PIECE)), MOST_PIECES)


def cut(result: Any, pieces: int) -> Any:
    """What a call returns whose caller wants so many pieces: several are so many results."""
    if pieces == 1:
        return result
    whole = memoryview(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
    step = -(-len(whole) // pieces)
    return tuple(bytes(whole[number * step : (number + 1) * step]) for number in range(pieces))


def joined(pieces: Sequence[bytes]) -> Any:
    """The result again, of several."""
    return pickle.loads(b"".join(pieces))
