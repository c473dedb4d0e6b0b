"""Measurement of recall: the positions of the ground truth of some queries among the candidates.

One scan of all lists is enough for every number of probes: the code score of a row does not depend on the other
rows, so the candidates of fewer lists are those of all lists without the rows of the other lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import integer_ids
from pcpq.ivf.probing import RankedLists
from pcpq.ivf.projection import project
from pcpq.search.queries import prepare_queries
from pcpq.search.recall_curve import (
    CANDIDATES,
    MOST_CANDIDATES,
    RESULTS,
    USUAL_TARGET,
    RecallCurve,
    candidates_for,
    probes_to_measure,
)
from pcpq.search.snapshot import Snapshot
from pcpq.segment.part import Part
from pcpq.segment.segment import Segment
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
from pcpq.util.threads import available_threads, map_threads, one_blas_thread

# Queries measured at once: all of them together would need as much memory as a small index.
QUERIES_TOGETHER = 64
# Temperatures that are tried, in standard deviations of a query's ranks, and results whose lists should be met.
TEMPERATURES = (0.18, 0.27, 0.41, 0.61)
NEAREST = 10
# Decimal places of what is measured. Rounding where it is stored instead would make an index choose differently
# once it was opened.
DIGITS = 5
KEPT_NOTHING = "an index that keeps no vectors has no ground truth: give tune queries and their truth"


@dataclass(frozen=True)
class Candidates:
    """The best rows of all lists of one part, by their codes."""

    ids: Ids  # (n, c)
    scores: NDArray[np.float64]  # (n, c) after reranking; -inf for the query itself
    scanned: Places  # (n, c) position by code score
    lists: Places  # (n, c) the row's list is probed with more probes than that

    @classmethod
    def of(
        cls, part: Part, queries: TuningQueries, query_rows: Float32Array, probed: Places, threads: int
    ) -> Candidates:
        """Search all lists of a part for queries in working units; see rows_by_probes for `probed`."""
        segment, everything, count = part.segment, part.everything, min(MOST_CANDIDATES, part.count)
        shape = (len(query_rows), count)
        scores, scanned, ids = np.empty(shape), np.empty(shape, np.int32), np.empty(shape, np.int64)

        def search(some: slice) -> None:
            native(
                queries=query_rows[some],
                probes=probed.shape[1],
                rerank=count,
                out_ids=ids[some],
                out_scores=scores[some],
                allowed=everything.mask,
                second_allowed=everything.second,
                share=everything.share,
                out_scanned=scanned[some],
            )

        native = segment.searcher.search
        map_threads(search, slices(len(query_rows), -(-len(query_rows) // threads)), threads)
        # A query is not a candidate of itself: it goes to the end of both orders.
        own = ids == queries.own[:, None]
        scores[own], scanned[own] = -np.inf, np.iinfo(np.int32).min + 1
        rows = rows_of(segment, ids.ravel())
        # As in the scan, the lower row comes first among equal scores.
        keys = (scanned.astype(np.int64) << 32) - rows.reshape(shape)
        places = np.empty(shape, np.intp)
        np.put_along_axis(places, np.argsort(-keys, axis=1), np.arange(count)[None], axis=1)
        # A row is found as soon as one of its lists is probed.
        found = [
            np.take_along_axis(probed, some[rows].reshape(shape), axis=1) for some in segment.lists_of_rows()
        ]
        lists = np.minimum.reduce(found)
        lists[own] = probed.shape[1]
        return cls(ids, scores, places, lists)


def rows_of(segment: Segment, ids: Ids) -> Places:
    """Return the rows of many ids, which all exist; if ids are nearly consecutive, by a direct table."""
    if int(segment.ids.max()) > 4 * len(segment):
        return segment.find(ids)
    rows = np.empty(int(segment.ids.max()) + 1, np.intp)
    rows[segment.ids] = np.arange(len(segment))
    return rows[ids]


@one_blas_thread
def measure(
    snapshot: Snapshot, queries: TuningQueries, truth: Truth, threads: int | None = None
) -> RecallCurve:
    """Measure recall by number of results, probes and candidates, for queries with known ground truth."""
    clear = truth.clear()
    if clear.any():
        queries, truth = queries[clear], truth[clear]
    most = min(truth.ids.shape[1], max(len(snapshot) - 1, 1))
    results = tuple(k for k in RESULTS if k <= most)
    probes = probes_to_measure(len(snapshot.trained.partition))
    temperature, margins = chosen_weights(snapshot, queries[:QUERIES], truth[:QUERIES], probes)
    hits, squares = np.zeros((2, len(results), len(probes), len(CANDIDATES)))
    rows = np.zeros(len(probes))
    for some in slices(len(queries), QUERIES_TOGETHER):
        probed = ranked_lists(snapshot, queries[some]).probed_from(temperature, probes, margins)
        found = recall_sums(
            snapshot, queries[some], truth[some], results, probes, probed, available_threads(threads)
        )
        hits, squares, rows = hits + found.hits, squares + found.squares, rows + found.rows
    n = len(queries)
    means = hits / n
    errors: NDArray[np.float64] = np.sqrt(np.maximum(squares / n - means**2, 0) / n)
    return RecallCurve(
        results,
        probes,
        CANDIDATES,
        tuple(np.round(rows / n, 1).tolist()),
        np.round(means, DIGITS),
        np.round(errors, DIGITS),
        n,
        queries.kind,
        margins,
        temperature,
    )


def ranked_lists(snapshot: Snapshot, queries: TuningQueries) -> RankedLists:
    """Return the lists as queries rank them."""
    trained = snapshot.trained
    rows = project(prepare_queries(trained, queries.vectors).rows, trained.projection)
    return RankedLists.of(trained.partition, trained.coarse, trained.metric, rows)


def chosen_weights(
    snapshot: Snapshot, queries: TuningQueries, truth: Truth, probes: tuple[int, ...]
) -> tuple[float, tuple[float, ...]]:
    """Return the best temperature of the weights of lists, and the margins for these numbers of probes."""
    ranked, nearest = ranked_lists(snapshot, queries), lists_of(snapshot, truth.ids[:, :NEAREST])
    temperatures = [0.0, *(each * ranked.scale for each in TEMPERATURES)]
    rows = [rows_needed(snapshot, ranked.log_weights(each), nearest) for each in temperatures]
    temperature = temperatures[int(np.argmin(rows))]
    return temperature, tuple(round(each, DIGITS) for each in ranked.margins(temperature, probes))


def lists_of(snapshot: Snapshot, ids: Ids) -> Places:
    """Return the (n, t, c) lists of integer ids: c for each, -1 where there is no such row."""
    found = []
    for part, rows in zip(snapshot.parts, snapshot.find_numbers(ids.ravel()), strict=True):
        for lists in part.segment.lists_of_rows():
            found.append(np.where(rows < 0, -1, lists[rows]).reshape(ids.shape))
    return np.stack(found, axis=2).astype(np.intp)


def rows_needed(snapshot: Snapshot, weights: Float32Array, lists: Places) -> float:
    """Return the rows in lists of enough weight for the usual recall, summed over queries.

    Parameters
    ----------
    weights : (n, L) weights of lists
    lists : (n, t, c) lists that the nearest rows of each query are in, -1 for none
    """
    of_lists = np.take_along_axis(weights[:, None, :], np.maximum(lists, 0), axis=2)
    best = np.where(lists < 0, -np.inf, of_lists).max(axis=2)
    least = np.quantile(best[lists.max(axis=2) >= 0], 1 - USUAL_TARGET, method="inverted_cdf")
    return float((weights >= least).sum(axis=0) @ list_sizes(snapshot))


class RecallSums(NamedTuple):
    """Sums over some queries, from which the recall curve is computed."""

    hits: NDArray[np.float64]  # (results, probes, candidates) sums of recalls
    squares: NDArray[np.float64]  # (results, probes, candidates) sums of squared recalls
    rows: NDArray[np.float64]  # (probes,) sums of rows scanned


def recall_sums(
    snapshot: Snapshot,
    queries: TuningQueries,
    truth: Truth,
    results: tuple[int, ...],
    probes: tuple[int, ...],
    probed: Places,
    threads: int,
) -> RecallSums:
    """Return the recall sums of some queries, given their ground truth; see rows_by_probes for `probed`."""
    query_rows = prepare_queries(snapshot.trained, queries.vectors).rows
    parts = [Candidates.of(part, queries, query_rows, probed, threads) for part in snapshot.parts if part.count]
    starts = np.cumsum([0, *(part.ids.shape[1] for part in parts)])[:-1]
    by_score = np.argsort(-np.concatenate([part.scores for part in parts], axis=1), axis=1, kind="stable")

    def reranked(columns: list[NDArray[Any]]) -> NDArray[Any]:
        return np.take_along_axis(np.concatenate(columns, axis=1), by_score, axis=1)

    ranks = truth.ranks_of(reranked([part.ids for part in parts]))
    scanned = reranked([part.scanned + start for part, start in zip(parts, starts, strict=True)])
    lists = reranked([part.lists for part in parts])
    counts = np.array([[candidates_for(k, each) for each in CANDIDATES] for k in results])
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
    return RecallSums(hits, squares, rows_by_probes(snapshot, probed, probes))


def as_int32(values: Any) -> NDArray[np.int32]:
    """Return values as contiguous int32, as native code takes them."""
    return np.ascontiguousarray(values, np.int32)


def measure_index(snapshot: Snapshot, queries: Any, truth: Any, seed: int, threads: int | None) -> RecallCurve:
    """Measure the recall of an index by given queries and ground truth, or by its own vectors."""
    if queries is None and truth is not None:
        raise ValueError("truth is given without its queries")
    if queries is None:
        tuning_queries = stored_queries(snapshot, np.random.default_rng(seed))
    else:
        tuning_queries, truth = TuningQueries.given(queries, truth, GIVEN_QUERIES, seed)
    ground_truth = stored_answers(snapshot, tuning_queries) if truth is None else given_answers(snapshot, truth)
    return measure(snapshot, tuning_queries, ground_truth, threads)


def stored_queries(snapshot: Snapshot, generator: np.random.Generator) -> TuningQueries:
    """Return some stored vectors of an index as queries."""
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
    """Return the ground truth of queries among the vectors that an index keeps."""
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
    """Return the ground truth of (n, k) ids that the user gave."""
    if not snapshot.has_string_ids:
        return Truth.of(integer_ids(truth).astype(np.int64))
    found = np.full(truth.size, -1, np.int64)
    strings = truth.ravel()
    known = np.flatnonzero(strings != None)  # noqa: E711  (None where there are fewer)
    for part, rows in zip(snapshot.parts, snapshot.find(strings[known].tolist()), strict=True):
        found[known[rows >= 0]] = part.segment.ids[rows[rows >= 0]]
    return Truth.of(found.reshape(truth.shape))


def rows_by_probes(snapshot: Snapshot, probed: Places, probes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the rows scanned with each number of probes, summed over queries.

    Lists are probed with more probes than `probed`.
    """
    sizes = np.broadcast_to(list_sizes(snapshot), probed.shape)
    total = np.bincount(probed.ravel(), weights=sizes.ravel(), minlength=probes[-1])
    sums: NDArray[np.float64] = np.cumsum(total)[np.array(probes) - 1]
    return sums


def list_sizes(snapshot: Snapshot) -> NDArray[np.float64]:
    """Return the (L,) numbers of rows of all lists."""
    sizes: NDArray[np.float64] = np.sum(
        [part.segment.list_sizes for part in snapshot.parts], axis=0, dtype=float
    )
    return sizes
