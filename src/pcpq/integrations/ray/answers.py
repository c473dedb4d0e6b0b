"""Results of the whole index from the candidates of all shards: the best by code, then the best of these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pcpq.integrations.ray.candidates import Candidates
from pcpq.io.arrays import Ids
from pcpq.search.top_k import top_k
from pcpq.segment.segment import Scores


def reranked_best(parts: Sequence[Candidates], k: int, rerank: int) -> tuple[Scores, Ids]:
    """Return the (n, k) scores and ids of a search of the whole segment that reranks `rerank` candidates.

    Candidates of slices must be in the order of their rows.
    """
    scores, ids = [], []
    for part, limit in zip(parts, reranked_of_each(parts, rerank), strict=True):
        filled: NDArray[np.bool_] = np.arange(part.counts.max(initial=0)) < part.counts[:, None]
        reranked = part.places < np.repeat(limit, part.counts)
        some_scores, some_ids = np.full(filled.shape, -np.inf), np.full(filled.shape, -1)
        some_scores[filled] = np.where(reranked, part.scores, -np.inf)
        some_ids[filled] = np.where(reranked, part.ids, -1)
        scores.append(some_scores)
        ids.append(some_ids)
    return top_k(np.concatenate(scores, axis=1), np.concatenate(ids, axis=1), k)


def reranked_of_each(parts: Sequence[Candidates], rerank: int) -> list[NDArray[np.intp]]:
    """Return (n,) counts per slice: rows among the best `rerank` by code; of equal codes, lower rows first."""
    # Earlier slices have lower rows, so this number orders all rows but those of equal code in one slice.
    ranks = [number - len(parts) * part.codes.astype(np.int64) for number, part in enumerate(parts)]
    together = np.concatenate(ranks, axis=1)
    if together.shape[1] <= rerank:
        return [np.full(len(one), one.shape[1]) for one in ranks]
    last = np.partition(together, rerank - 1, axis=1)[:, rerank - 1]
    limits = np.stack([(one <= last[:, None]).sum(axis=1) for one in ranks])
    # The surplus rows have the same code as the last one, and are in the same slice.
    limits[last % len(parts), np.arange(len(last))] -= limits.sum(axis=0) - rerank
    return list(limits)
