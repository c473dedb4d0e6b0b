"""Queries for the measurement of recall, and their ground truth among all vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, FloatArray, Ids, as_vectors
from pcpq.io.streams import Sample
from pcpq.search.queries import prepare_queries
from pcpq.search.recall_curve import FEW, RESULTS
from pcpq.segment.trained import Trained
from pcpq.util.batches import slices
from pcpq.util.threads import one_blas_thread

# Held-out queries, at most and at least: more would take over a quarter of the build time.
QUERIES = 400
LEAST_QUERIES = 150
ROWS_PER_QUERY = 100
# Largest number of queries of the user that are measured.
GIVEN_QUERIES = 1000
# Size of the ground truth: the best rows per query.
TRUE_ROWS = RESULTS[-1]
# Scores whose relative difference is smaller are ties.
TIED = 1e-6
# Rows that are compared with all queries at once, and rows per query that may wait to be sorted.
ROWS_TOGETHER = 512
MOST_WAITING = 2 * TRUE_ROWS

Places = NDArray[np.intp]


@dataclass(frozen=True)
class TuningQueries:
    """Queries for the measurement of recall."""

    vectors: FloatArray  # (n, d) as they were given
    own: Ids  # (n,) integer ids of queries that are in the index; -1 for others
    kind: str  # "held out" or "given"

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, some: slice | NDArray[Any]) -> TuningQueries:
        """Return some of the queries."""
        return replace(self, vectors=self.vectors[some], own=self.own[some])

    @classmethod
    def given(cls, queries: Any, truth: Any, most: int, seed: int) -> tuple[TuningQueries, Any]:
        """Return at most `most` queries of the user, and their ground truth if it is given."""
        vectors = as_vectors(queries, "queries")
        some = np.sort(np.random.default_rng(seed).permutation(len(vectors))[:most])
        if truth is not None:
            truth = np.asarray(truth)
            if truth.ndim != 2 or len(truth) != len(vectors) or truth.shape[1] == 0:
                raise ValueError(f"truth has shape {truth.shape} for {len(vectors)} queries")
            truth = truth[some]
        return cls(np.array(vectors[some]), np.full(len(some), -1, np.int64), "given"), truth

    @classmethod
    def held_out(cls, sample: Sample) -> TuningQueries:
        """Return vectors of the index as queries, numbered by row; a query is not a result of itself."""
        return cls(
            np.array(sample.read(slice(None))), sample.numbers_of(slice(None)).astype(np.int64), "held out"
        )

    def renumbered(self, numbers: Ids) -> TuningQueries:
        """Return the queries with integer ids instead of row numbers."""
        return replace(self, own=numbers_at(numbers, self.own))


def sort_keys(query: Places, scores: Float32Array) -> Ids:
    """Return integer sort keys, by query, then by descending score: one fast sort instead of two slow ones."""
    bits = (scores + np.float32(0.0)).view(np.int32).astype(np.int64)
    rising = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    keys: Ids = query.astype(np.int64) * (1 << 33) - rising
    return keys


def rows_apart(n: int, seed: int) -> Places:
    """Return rows of a sample that are held out as queries: training rows are easier to find."""
    return np.sort(np.random.default_rng([seed, 1]).permutation(n)[: queries_for(n)])


def queries_for(n: int) -> int:
    """Return the number of held-out queries for n vectors; 0 if all vectors are reranked anyway."""
    return 0 if n <= FEW else min(QUERIES, max(LEAST_QUERIES, n // ROWS_PER_QUERY))


def numbers_at(numbers: Ids, places: Ids) -> Ids:
    """Return the integer ids of rows, -1 for -1."""
    return np.where(places < 0, -1, numbers[places])


@dataclass(frozen=True)
class Truth:
    """Ground truth: the best rows of queries, best first, and their ranks."""

    ids: Ids  # (n, t)  -1 where there are fewer rows
    ranks: Places  # (n, t)  number of better rows; ties share a rank

    def __getitem__(self, some: slice | NDArray[Any]) -> Truth:
        """Return the ground truth of some queries."""
        return Truth(self.ids[some], self.ranks[some])

    @classmethod
    def of(cls, ids: Ids) -> Truth:
        """Return the ground truth of (n, t) ids without ties."""
        return cls(ids, np.broadcast_to(np.arange(ids.shape[1]), ids.shape))

    def renumbered(self, numbers: Ids) -> Truth:
        """Return the ground truth with integer ids instead of row numbers."""
        return replace(self, ids=numbers_at(numbers, self.ids))

    def clear(self) -> NDArray[np.bool_]:
        """Return (n,) whether the ground truth of a query does not end in a long tie.

        Such a tie may go on beyond the ground truth, and any of its rows would be correct.
        """
        untied: NDArray[np.bool_] = self.ranks[:, -1] >= self.ranks.shape[1] // 3
        return untied

    def ranks_of(self, ids: Ids) -> Places:
        """Return the (n, c) ranks of ids; a very large rank for ids outside the ground truth."""
        order = np.argsort(self.ids, axis=1)
        found = np.full(ids.shape, np.iinfo(np.int32).max)
        for row, (candidates, true_ids, by_id) in enumerate(zip(ids, self.ids, order, strict=True)):
            place = np.searchsorted(true_ids, candidates, sorter=by_id)
            place[place == len(true_ids)] = 0
            hit = (true_ids[by_id[place]] == candidates) & (candidates >= 0)
            found[row, hit] = self.ranks[row, by_id[place[hit]]]
        return found


class FoundRows(NamedTuple):
    """Rows that may belong to the ground truth: the query, the score and the integer id of each."""

    query: Places
    scores: Float32Array
    numbers: Ids


class ExactAnswers:
    """The best rows of some queries among all rows, which are compared batch by batch."""

    def __init__(self, trained: Trained, queries: TuningQueries) -> None:
        self.trained, self.queries = trained, queries
        self.asked = self._around(prepare_queries(trained, queries.vectors).rows)
        self.least = np.full((len(self.asked), 1), -np.inf, np.float32)  # least score of a new row
        # Query, score and integer id of every row that may be among the best.
        self._query = np.empty(0, np.intp)
        self._scores = np.empty(0, np.float32)
        self._numbers = np.empty(0, np.int64)

    def _around(self, rows: Float32Array) -> Float32Array:
        """Return rows minus the mean of the centroids if the metric is a distance.

        Far from the origin, inner products would lose the precision of distances.
        """
        return rows - self.trained.mean if self.trained.euclidean else rows

    def observe(self, vectors: FloatArray, first: int) -> None:
        """Compare vectors, as they were given, with all queries; rows are numbered from `first` on."""
        self.observe_rows(self.trained.working(vectors, first), first)

    @one_blas_thread
    def observe_rows(self, rows: Float32Array, first: int) -> None:
        """Compare rows in working units with all queries; rows are numbered from `first` on."""
        for part in slices(len(rows), ROWS_TOGETHER):
            self.compare(rows[part], np.arange(first + part.start, first + part.stop))

    @one_blas_thread
    def compare(self, rows: Float32Array, numbers: Ids) -> None:
        """Compare rows in working units, with ascending integer ids, with all queries."""
        rows = self._around(rows)
        scores = self.asked @ rows.T
        if self.trained.euclidean:
            scores -= 0.5 * np.einsum("ij,ij->i", rows, rows)
        self._refuse_own(scores, numbers)
        first = len(self._query) == 0
        if first:  # there is no least score yet
            keep = min(TRUE_ROWS, len(rows))
            columns = np.argpartition(-scores, keep - 1, axis=1)[:, :keep].ravel()
            queries = np.repeat(np.arange(len(scores)), keep)
        else:
            queries, columns = np.divmod(np.flatnonzero(scores > self.least), len(rows))
        self._query = np.concatenate([self._query, queries])
        self._scores = np.concatenate([self._scores, scores[queries, columns]])
        self._numbers = np.concatenate([self._numbers, numbers[columns]])
        if first or len(self._query) > MOST_WAITING * len(self.asked):
            self._settle()

    def _refuse_own(self, scores: Float32Array, numbers: Ids) -> None:
        """Set the score of a query with itself to -inf."""
        place = np.searchsorted(numbers, self.queries.own)
        place[place == len(numbers)] = 0
        found = np.flatnonzero(numbers[place] == self.queries.own)
        scores[found, place[found]] = -np.inf

    def _settle(self) -> None:
        """Sort the rows of every query and drop all but the best."""
        order = np.argsort(sort_keys(self._query, self._scores), kind="stable")
        query = self._query[order]
        best = np.arange(len(query)) - np.searchsorted(query, query) < TRUE_ROWS
        order = order[best]
        self._query, self._scores, self._numbers = query[best], self._scores[order], self._numbers[order]
        last = np.flatnonzero(np.diff(self._query, append=-1))
        full = np.bincount(self._query, minlength=len(self.asked)) == TRUE_ROWS
        self.least[full, 0] = self._scores[last][full[self._query[last]]]

    def found(self) -> FoundRows:
        """Return the best rows of every query so far."""
        self._settle()
        return FoundRows(self._query, self._scores, self._numbers)

    @classmethod
    def merged(cls, trained: Trained, queries: TuningQueries, found: Sequence[FoundRows]) -> ExactAnswers:
        """Return the best rows of several collections of the same queries."""
        exact = cls(trained, queries)
        query, scores, numbers = (np.concatenate(column) for column in zip(*found, strict=True))
        # Sorted by integer id, so that the order of ties does not depend on the order of collections.
        order = np.argsort(numbers, kind="stable")
        exact._query, exact._scores, exact._numbers = query[order], scores[order], numbers[order]
        exact._settle()
        return exact

    def truth(self) -> Truth:
        """Return the ground truth of every query."""
        self._settle()
        shape = (len(self.asked), TRUE_ROWS)
        numbers, scores = np.full(shape, -1, np.int64), np.full(shape, -np.inf)
        place = np.arange(len(self._query)) - np.searchsorted(self._query, self._query)
        known = self._scores > -np.inf
        cells = self._query[known], place[known]
        numbers[cells], scores[cells] = self._numbers[known], self._scores[known]
        # A row with the same score as the one before has the same rank: either is a correct result.
        sizes = np.abs(scores)
        if self.trained.euclidean:  # half of the squared distance
            sizes = np.maximum(0.5 * np.square(self.asked, dtype=np.float64).sum(axis=1)[:, None] - scores, 0)
        new = np.ones(shape, bool)
        with np.errstate(invalid="ignore"):
            new[:, 1:] = ~(scores[:, 1:] >= scores[:, :-1] - TIED * sizes[:, 1:])
        return Truth(numbers, np.maximum.accumulate(np.where(new, np.arange(TRUE_ROWS), 0), axis=1))
