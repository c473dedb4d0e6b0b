"""What a slice tells of the rows that it judged, in as few bytes as answers of the whole need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Ids
from pcpq.segment.segment import Scores

# What the scan thinks of nothing.
NOTHING = np.iinfo(np.int32).min


class Candidates(NamedTuple):
    """Of every query: the best codes of a slice, and those of its rows that may be among the answers.

    The whole judges the best so many by their codes, of all slices together: of each, some that come first by
    code; how many, no slice knows. A row that k others surpass by code and as judged is no answer however many
    they are: nothing is told of it but its code.
    """

    codes: NDArray[np.int32]  # (n, c) what the scan thinks of rows, best first, of equal ones the lower row
    counts: NDArray[np.int32]  # (n,) rows that are told of, one query's after the other's
    places: NDArray[np.int32]  # (m,) which of the codes each has
    ids: Ids  # (m,)
    scores: Scores  # (m,) as judged


def candidates_of(
    codes: NDArray[np.int32], rows: NDArray[np.int64], scores: Scores, ids: Ids, k: int
) -> Candidates:
    """Of rows (n, c) as judged, best first; -1 is none."""
    order = np.argsort(rows - (codes.astype(np.int64) << 32), axis=1)
    places = np.empty(order.shape, np.int32)
    np.put_along_axis(places, order, np.arange(order.shape[1], dtype=np.int32)[None], axis=1)
    told = rows >= 0
    few = 2 * k
    if rows.shape[1] > few:
        # Of those judged best, k come before this place: so they do for all that come after it.
        place = np.partition(places[:, :few], k - 1, axis=1)[:, k - 1 : k]
        equal = scores[:, few:] == scores[:, few - 1 : few]  # these may have a lower id
        told[:, few:] &= (places[:, few:] < place) | equal
    return Candidates(
        np.take_along_axis(codes, order, axis=1),
        told.sum(axis=1, dtype=np.int32),
        places[told],
        ids[rows[told]],
        scores[told],
    )
