"""Candidates of all shards to answers: the best by code of all are judged, the best of these are answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pcpq.integrations.ray.candidates import Candidates
from pcpq.io.arrays import Ids
from pcpq.search.top_k import top_k
from pcpq.segment.segment import Scores


def judged_best(parts: Sequence[Candidates], k: int, rerank: int) -> tuple[Scores, Ids]:
    """(n, k) what a search of the whole segment would answer that judges `rerank` candidates.

    Slices come in the order of their rows.
    """
    scores, ids = [], []
    for part, limit in zip(parts, judged_of_each(parts, rerank), strict=True):
        there: NDArray[np.bool_] = np.arange(part.counts.max(initial=0)) < part.counts[:, None]
        judged = part.places < np.repeat(limit, part.counts)
        some_scores, some_ids = np.full(there.shape, -np.inf), np.full(there.shape, -1)
        some_scores[there] = np.where(judged, part.scores, -np.inf)
        some_ids[there] = np.where(judged, part.ids, -1)
        scores.append(some_scores)
        ids.append(some_ids)
    return top_k(np.concatenate(scores, axis=1), np.concatenate(ids, axis=1), k)


def judged_of_each(parts: Sequence[Candidates], rerank: int) -> list[NDArray[np.intp]]:
    """(n,) of every slice: how many of its rows are among the best by code; of equal ones, lower rows are."""
    # Rows of earlier slices are lower, so this number orders all but equal codes of one slice.
    ranks = [place - len(parts) * part.codes.astype(np.int64) for place, part in enumerate(parts)]
    together = np.concatenate(ranks, axis=1)
    if together.shape[1] <= rerank:
        return [np.full(len(one), one.shape[1]) for one in ranks]
    last = np.partition(together, rerank - 1, axis=1)[:, rerank - 1]
    limits = np.stack([(one <= last[:, None]).sum(axis=1) for one in ranks])
    # Those too many are equal to the last one, and of its slice.
    limits[last % len(parts), np.arange(len(last))] -= limits.sum(axis=0) - rerank
    return list(limits)
