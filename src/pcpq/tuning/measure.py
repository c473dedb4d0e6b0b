"""What searches find, measured: where the exact answers of some queries stand among candidates.

One scan of all lists tells it for any number of probes: the code score of a row does not depend on who else is
scanned, so the candidates of fewer lists are those of all lists without the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import integer_ids
from pcpq.search.queries import prepare_queries
from pcpq.search.recall_curve import (
    CANDIDATES,
    MOST_CANDIDATES,
    RESULTS,
    RecallCurve,
    judged_for,
    probes_to_measure,
)
from pcpq.search.snapshot import Snapshot
from pcpq.segment.part import Part
from pcpq.segment.segment import Segment
from pcpq.segment.trained import Trained
from pcpq.tuning.ground_truth import (
    GIVEN_QUERIES,
    QUERIES,
    ROWS_TOGETHER,
    ExactAnswers,
    Places,
    Truth,
    TuningQueries,
)
from pcpq.util.batches import slices
from pcpq.util.threads import available_threads, map_threads

# Queries measured at once: all of them would hold as much memory as a small index.
QUERIES_TOGETHER = 64
KEPT_NOTHING = "an index that keeps no vectors does not know exact answers: give tune queries and their truth"


@dataclass(frozen=True)
class Candidates:
    """The best rows of all lists of one part by their codes."""

    ids: Ids  # (n, c)
    scores: NDArray[np.float64]  # (n, c) as judged, -inf for those that do not count
    scanned: Places  # (n, c) place in the order of the scan
    lists: Places  # (n, c) place of the row's list in the order of probing

    @classmethod
    def of(
        cls, part: Part, queries: TuningQueries, asked: Float32Array, order: Places, threads: int
    ) -> Candidates:
        """By a search of everything."""
        segment, count = part.segment, min(MOST_CANDIDATES, part.count)
        shape = (len(asked), count)
        scores, scanned, ids = np.empty(shape), np.empty(shape, np.int32), np.empty(shape, np.int64)

        def search(some: slice) -> None:
            native(
                asked[some],
                order.shape[1],
                count,
                ids[some],
                scores[some],
                part.live,
                part.everything.share,
                out_scanned=scanned[some],
            )

        native = segment.searcher.search
        map_threads(search, slices(len(asked), -(-len(asked) // threads)), threads)
        # A query itself is no candidate: it goes to the end, in both orders.
        own = ids == queries.own[:, None]
        scores[own], scanned[own] = -np.inf, np.iinfo(np.int32).min + 1
        rows = rows_of(segment, ids.ravel())
        # As the scan does: of equal scores the lower row comes first.
        keys = (scanned.astype(np.int64) << 32) - rows.reshape(shape)
        places = np.empty(shape, np.intp)
        np.put_along_axis(places, np.argsort(-keys, axis=1), np.arange(count)[None], axis=1)
        homes = np.searchsorted(segment.blocks.rows, rows, side="right") - 1
        lists = np.take_along_axis(order, homes.reshape(shape), axis=1)
        lists[own] = order.shape[1]
        return cls(ids, scores, places, lists)


def rows_of(segment: Segment, ids: Ids) -> Places:
    """The rows of many ids that are there; where ids nearly count up from 0, without a search for each."""
    if int(segment.ids.max()) > 4 * len(segment):
        return segment.find(ids)
    rows = np.empty(int(segment.ids.max()) + 1, np.intp)
    rows[segment.ids] = np.arange(len(segment))
    return rows[ids]


def measure(
    snapshot: Snapshot, queries: TuningQueries, truth: Truth, threads: int | None = None
) -> RecallCurve:
    """Recall by results, probes and candidates, of queries whose exact answers are known."""
    clear = truth.clear()
    if clear.any():
        queries, truth = queries[clear], truth[clear]
    most = min(truth.ids.shape[1], max(len(snapshot) - 1, 1))
    results = tuple(k for k in RESULTS if k <= most)
    probes = probes_to_measure(len(snapshot.trained.partition))
    hits, squares = np.zeros((2, len(results), len(probes), len(CANDIDATES)))
    rows = np.zeros(len(probes))
    for some in slices(len(queries), QUERIES_TOGETHER):
        found = look_for(snapshot, queries[some], truth[some], results, probes, available_threads(threads))
        hits, squares, rows = hits + found.hits, squares + found.squares, rows + found.rows
    n = len(queries)
    means = hits / n
    errors = np.sqrt(np.maximum(squares / n - means**2, 0) / n)
    return RecallCurve(results, probes, CANDIDATES, tuple((rows / n).tolist()), means, errors, n, queries.kind)


class Looked(NamedTuple):
    """Sums over some queries."""

    hits: NDArray[np.float64]  # (results, probes, candidates) of recalls
    squares: NDArray[np.float64]  # the same, of their squares
    rows: NDArray[np.float64]  # (probes,) of rows scanned


def look_for(
    snapshot: Snapshot,
    queries: TuningQueries,
    truth: Truth,
    results: tuple[int, ...],
    probes: tuple[int, ...],
    threads: int,
) -> Looked:
    """What some queries find of their exact answers."""
    asked = prepare_queries(snapshot.trained, queries.vectors).rows
    order = probing_order(snapshot.trained, asked)
    parts = [Candidates.of(part, queries, asked, order, threads) for part in snapshot.parts if part.count]
    starts = np.cumsum([0, *(part.ids.shape[1] for part in parts)])[:-1]
    judged = np.argsort(-np.concatenate([part.scores for part in parts], axis=1), axis=1, kind="stable")

    def as_judged(columns: list[NDArray[Any]]) -> NDArray[Any]:
        return np.take_along_axis(np.concatenate(columns, axis=1), judged, axis=1)

    ranks = truth.ranks_of(as_judged([part.ids for part in parts]))
    scanned = as_judged([part.scanned + start for part, start in zip(parts, starts, strict=True)])
    lists = as_judged([part.lists for part in parts])
    counts = np.array([[judged_for(k, each) for each in CANDIDATES] for k in results])
    hits, squares = np.empty((2, len(results), len(probes), len(CANDIDATES)))
    _core.sum_recalls(
        scanned=as_int32(scanned),
        lists=as_int32(lists),
        ranks=as_int32(ranks),
        parts=as_int32(starts),
        results=as_int32(results),
        probes=as_int32(probes),
        reranks=as_int32(counts),
        out_hits=hits,
        out_squares=squares,
    )
    return Looked(hits, squares, rows_by_probes(snapshot, order, probes))


def as_int32(values: Any) -> NDArray[np.int32]:
    """Values as the native code takes them."""
    return np.ascontiguousarray(values, np.int32)


def measure_index(snapshot: Snapshot, queries: Any, truth: Any, seed: int, threads: int | None) -> RecallCurve:
    """By queries and their exact answers, if they are given."""
    if queries is None and truth is not None:
        raise ValueError("truth is given without its queries")
    if queries is None:
        asked = stored_queries(snapshot, np.random.default_rng(seed))
    else:
        asked, truth = TuningQueries.given(queries, truth, GIVEN_QUERIES, seed)
    answers = stored_answers(snapshot, asked) if truth is None else given_answers(snapshot, truth)
    return measure(snapshot, asked, answers, threads)


def stored_queries(snapshot: Snapshot, generator: np.random.Generator) -> TuningQueries:
    """Some vectors of an index."""
    if snapshot.trained.keep is None:
        raise ValueError(KEPT_NOTHING)
    shares = np.array([part.count for part in snapshot.parts]) / len(snapshot)
    vectors, own = [], []
    for part, count in zip(snapshot.parts, generator.multinomial(QUERIES, shares), strict=True):
        rows = np.sort(generator.permutation(part.rows_left())[:count])
        vectors.append(part.segment.vectors(rows))
        own.append(part.segment.checked_ids[rows])
    unit = np.float32(snapshot.trained.unit)
    return TuningQueries(np.concatenate(vectors) * unit, np.concatenate(own), "held out")


def stored_answers(snapshot: Snapshot, queries: TuningQueries) -> Truth:
    """Exact answers among the vectors that an index keeps."""
    if snapshot.trained.keep is None:
        raise ValueError(KEPT_NOTHING)
    exact = ExactAnswers(snapshot.trained, queries)
    for part in snapshot.parts:
        rows = part.rows_left()
        rows = rows[np.argsort(part.segment.checked_ids[rows])]
        for some in slices(len(rows), ROWS_TOGETHER):
            exact.compare(part.segment.vectors(rows[some]), part.segment.ids[rows[some]])
    return exact.truth()


def given_answers(snapshot: Snapshot, truth: NDArray[Any]) -> Truth:
    """Answers that the user knows, (n, k) ids."""
    if not snapshot.of_words:
        return Truth.of(integer_ids(truth).astype(np.int64))
    found = np.full(truth.size, -1, np.int64)
    words = truth.ravel()
    known = np.flatnonzero(words != None)  # noqa: E711  (where there were fewer)
    for part, rows in zip(snapshot.parts, snapshot.find(words[known].tolist()), strict=True):
        found[known[rows >= 0]] = part.segment.ids[rows[rows >= 0]]
    return Truth.of(found.reshape(truth.shape))


def probing_order(trained: Trained, asked: Float32Array) -> Places:
    """(n, L) the place of every list in the order in which a query probes them, as native code ranks them."""
    partition, coarse = trained.partition, trained.coarse
    rows = asked - coarse.middle if trained.euclidean else asked
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    ranks = coarse.products(rows) + partition.offsets + lengths * partition.spreads
    places = np.empty(ranks.shape, np.intp)
    np.put_along_axis(places, np.argsort(-ranks, axis=1), np.arange(ranks.shape[1])[None], axis=1)
    return places


def rows_by_probes(snapshot: Snapshot, places: Places, probes: tuple[int, ...]) -> NDArray[np.float64]:
    """Rows in the first so many lists of a query, summed over queries."""
    sizes = sum(np.diff(part.segment.blocks.rows) for part in snapshot.parts)
    in_order = np.empty(places.shape)
    np.put_along_axis(in_order, places, np.broadcast_to(sizes, places.shape).astype(np.float64), axis=1)
    sums: NDArray[np.float64] = np.cumsum(in_order.sum(axis=0))[np.array(probes) - 1]
    return sums
