"""Candidates of a slice, in as few bytes as the results of the whole index need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Ids
from pcpq.segment.segment import Scores

# Score by code of a missing row.
NOTHING = np.iinfo(np.int32).min


class Candidates(NamedTuple):
    """For every query, the best scores by code of a slice, and the rows that may be among the results.

    A search of the whole index reranks the best rows by code of all slices together. These are the first ones
    of each slice, but a slice cannot compute how many. A row that is behind k others both by code and after
    reranking is never a result, so only its score by code is sent.
    """

    codes: NDArray[np.int32]  # (n, c) scores by code, best first; of equal scores, the lower row first
    counts: NDArray[np.int32]  # (n,) number of rows that are sent, per query
    places: NDArray[np.int32]  # (m,) position of each row in `codes`
    ids: Ids  # (m,)
    scores: Scores  # (m,) reranked scores


def candidates_of(
    codes: NDArray[np.int32], rows: NDArray[np.int64], scores: Scores, ids: Ids, k: int
) -> Candidates:
    """Return the candidates of (n, c) reranked rows, best first, where -1 is a missing row."""
    order = np.argsort(rows - (codes.astype(np.int64) << 32), axis=1)
    places = np.empty(order.shape, np.int32)
    np.put_along_axis(places, order, np.arange(order.shape[1], dtype=np.int32)[None], axis=1)
    sent = rows >= 0
    few = 2 * k
    if rows.shape[1] > few:
        # k of the best reranked rows are before this position by code, so later rows cannot be results.
        last = np.partition(places[:, :few], k - 1, axis=1)[:, k - 1 : k]
        equal = scores[:, few:] == scores[:, few - 1 : few]  # these may have a lower id
        sent[:, few:] &= (places[:, few:] < last) | equal
    return Candidates(
        np.take_along_axis(codes, order, axis=1),
        sent.sum(axis=1, dtype=np.int32),
        places[sent],
        ids[rows[sent]],
        scores[sent],
    )
