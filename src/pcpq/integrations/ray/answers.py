"""Candidates of all shards to answers: the best by code of all are judged, the best of these are answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pcpq.arrays import Ids
from pcpq.integrations.ray.slices import Candidates
from pcpq.scan import Scores


def judged_best(parts: Sequence[Candidates], k: int, rerank: int) -> tuple[Scores, Ids]:
    """(n, k) what a search of the whole segment would answer that judges `rerank` candidates.

    A slice knows its own best so many. Those of the whole are among them: larger codes first, then lower rows.
    """
    together = Candidates(*(np.concatenate(column, axis=1) for column in zip(*parts, strict=True)))
    scores, ids = together.scores, together.ids
    if together.codes.shape[1] > rerank:
        keys = (-together.codes.astype(np.int64) << 32) + together.rows
        # No two rows are equal, so there is one way to cut.
        best = np.argpartition(keys, rerank - 1, axis=1)[:, :rerank]
        scores, ids = np.take_along_axis(scores, best, axis=1), np.take_along_axis(ids, best, axis=1)
    return best_by_score(scores, ids, k)


def best_by_score(scores: Scores, ids: Ids, k: int) -> tuple[Scores, Ids]:
    """(n, k) the best in order, ties to the lower id; -1 and -inf where there are fewer."""
    count = scores.shape[1]
    if count < k:
        scores = np.pad(scores, ((0, 0), (0, k - count)), constant_values=-np.inf)
        ids = np.pad(ids, ((0, 0), (0, k - count)), constant_values=-1)
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    # Ties are rare: only queries that have some among the first are sorted by ids too.
    tied: NDArray[np.bool_] = (ranked[:, :k] == np.roll(ranked, -1, axis=1)[:, :k]).any(axis=1)
    if tied.any():
        order[tied] = np.lexsort((ids[tied], ids[tied] < 0, -scores[tied]), axis=1)
    order = order[:, :k]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(ids, order, axis=1)
