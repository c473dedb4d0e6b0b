"""The k best of several searches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Ids
from pcpq.segment.segment import Scores


def best_of(found: Sequence[tuple[Scores, Ids]], n: int, k: int) -> tuple[Scores, Ids]:
    """Return the (n, k) best of several searches, ties to the lower id; -inf and -1 where there are fewer."""
    if not found:
        return nothing(n, k)
    if len(found) == 1 and found[0][0].shape[1] == k:
        return found[0]
    return top_k(
        np.concatenate([scores for scores, _ in found], axis=1),
        np.concatenate([ids for _, ids in found], axis=1),
        k,
    )


def top_k(scores: Scores, ids: Ids, k: int) -> tuple[Scores, Ids]:
    """Return the (n, k) best of every row, best first, ties to the lower id; -inf and -1 if there are fewer."""
    count = scores.shape[1]
    if count < k:
        scores = np.pad(scores, ((0, 0), (0, k - count)), constant_values=-np.inf)
        ids = np.pad(ids, ((0, 0), (0, k - count)), constant_values=-1)
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    # Ties are rare: only queries with ties among the first k are also sorted by id.
    tied: NDArray[np.bool_] = (ranked[:, :k] == np.roll(ranked, -1, axis=1)[:, :k]).any(axis=1)
    if tied.any():
        # Among equals, -1, which stands for no result, comes last.
        order[tied] = np.lexsort((ids[tied], ids[tied] < 0, -scores[tied]), axis=1)
    order = order[:, :k]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(ids, order, axis=1)


def nothing(n: int, k: int) -> tuple[Scores, Ids]:
    """Return the (n, k) scores and ids of queries that find nothing."""
    return np.full((n, k), -np.inf), np.full((n, k), -1, np.int64)
