"""Queries to measure an index by, and their exact answers among all vectors, looked at batch by batch."""

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

# Vectors of an index to measure by: more would cost more of a build than its tenth. Queries that a user gives.
QUERIES = 400
LEAST_QUERIES = 150
ROWS_A_QUERY = 500
GIVEN_QUERIES = 1000
# The best rows of a query that are known exactly.
TRUE_ROWS = RESULTS[-1]
# Scores that differ by less than this share of them are the same.
TIED = 1e-6
# Rows against all queries at once, and how many times as many as wanted may wait to be sorted.
ROWS_TOGETHER = 512
MOST_WAITING = 2 * TRUE_ROWS

Places = NDArray[np.intp]


@dataclass(frozen=True)
class TuningQueries:
    """What to search for."""

    vectors: FloatArray  # (n, d) as they were given
    own: Ids  # (n,) their numbers, if they are in the index; -1 if not
    kind: str

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, some: slice | NDArray[Any]) -> TuningQueries:
        """Some of them."""
        return replace(self, vectors=self.vectors[some], own=self.own[some])

    @classmethod
    def given(cls, queries: Any, truth: Any, most: int, seed: int) -> tuple[TuningQueries, Any]:
        """Queries of a user with their exact answers, if they are known; or some of them."""
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
        """Vectors of the index, by their places; they do not count as answers to themselves."""
        return cls(
            np.array(sample.read(slice(None))), sample.numbers_of(slice(None)).astype(np.int64), "held out"
        )

    def renumbered(self, numbers: Ids) -> TuningQueries:
        """With numbers instead of places."""
        return replace(self, own=numbers_at(numbers, self.own))


def in_order(query: Places, scores: Float32Array) -> Ids:
    """Integers that rise with queries, and as scores fall within them: one fast sort, not two slow ones."""
    bits = (scores + np.float32(0.0)).view(np.int32).astype(np.int64)
    rising = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    keys: Ids = query.astype(np.int64) * (1 << 33) - rising
    return keys


def rows_apart(n: int, seed: int) -> Places:
    """Rows of a sample that lists are not trained on: what they were trained on is found more easily."""
    return np.sort(np.random.default_rng([seed, 1]).permutation(n)[: queries_for(n)])


def queries_for(n: int) -> int:
    """How many to measure n vectors by; none where all of them are judged anyway."""
    return 0 if n <= FEW else min(QUERIES, max(LEAST_QUERIES, n // ROWS_A_QUERY))


def numbers_at(numbers: Ids, places: Ids) -> Ids:
    """The numbers of vectors by their places, -1 for -1."""
    return np.where(places < 0, -1, numbers[places])


@dataclass(frozen=True)
class Truth:
    """The best rows of queries, best first, -1 where there are fewer; and how many are better than each."""

    ids: Ids  # (n, t)
    ranks: Places  # (n, t)

    def __getitem__(self, some: slice | NDArray[Any]) -> Truth:
        """Of some queries."""
        return Truth(self.ids[some], self.ranks[some])

    @classmethod
    def of(cls, ids: Ids) -> Truth:
        """No two alike."""
        return cls(ids, np.broadcast_to(np.arange(ids.shape[1]), ids.shape))

    def renumbered(self, numbers: Ids) -> Truth:
        """With numbers instead of places."""
        return replace(self, ids=numbers_at(numbers, self.ids))

    def clear(self) -> NDArray[np.bool_]:
        """(n,) whose answers end before rows that all score alike: any of more than are known would be one."""
        ended: NDArray[np.bool_] = self.ranks[:, -1] >= self.ranks.shape[1] // 3
        return ended

    def ranks_of(self, ids: Ids) -> Places:
        """(n, c) of ids; a large one for those that are not among the best."""
        order = np.argsort(self.ids, axis=1)
        found = np.full(ids.shape, np.iinfo(np.int32).max)
        for row, (asked, mine, by_id) in enumerate(zip(ids, self.ids, order, strict=True)):
            place = np.searchsorted(mine, asked, sorter=by_id)
            place[place == len(mine)] = 0
            hit = (mine[by_id[place]] == asked) & (asked >= 0)
            found[row, hit] = self.ranks[row, by_id[place[hit]]]
        return found


class FoundRows(NamedTuple):
    """Rows that may be exact answers: the query, the score and the number of each."""

    query: Places
    scores: Float32Array
    numbers: Ids


class ExactAnswers:
    """The best rows for some queries among all that it is shown, batch by batch."""

    def __init__(self, trained: Trained, queries: TuningQueries) -> None:
        self.trained, self.queries = trained, queries
        self.asked = self._around(prepare_queries(trained, queries.vectors).rows)
        self.least = np.full((len(self.asked), 1), -np.inf, np.float32)  # what a row must exceed
        # Of every row that may be among the best: its query, its score and its number.
        self._query = np.empty(0, np.intp)
        self._scores = np.empty(0, np.float32)
        self._numbers = np.empty(0, np.int64)

    def _around(self, rows: Float32Array) -> Float32Array:
        """Around the middle, where the metric is a distance: far from the origin products lose it."""
        return rows - self.trained.partition.middle if self.trained.euclidean else rows

    def look(self, vectors: FloatArray, first: int) -> None:
        """Vectors as they were given, numbered from `first` on."""
        self.look_at_rows(self.trained.working(vectors, first), first)

    def look_at_rows(self, rows: Float32Array, first: int) -> None:
        """The same of rows in working units."""
        for part in slices(len(rows), ROWS_TOGETHER):
            self.compare(rows[part], np.arange(first + part.start, first + part.stop))

    def compare(self, rows: Float32Array, numbers: Ids) -> None:
        """Some rows in working units, ascending by number."""
        rows = self._around(rows)
        scores = self.asked @ rows.T
        if self.trained.euclidean:
            scores -= 0.5 * np.einsum("ij,ij->i", rows, rows)
        self._refuse_own(scores, numbers)
        first = len(self._query) == 0
        if first:  # all are better than nothing
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
        """A query is no answer to itself."""
        place = np.searchsorted(numbers, self.queries.own)
        place[place == len(numbers)] = 0
        asked = np.flatnonzero(numbers[place] == self.queries.own)
        scores[asked, place[asked]] = -np.inf

    def _settle(self) -> None:
        """Leave the best of every query, in order."""
        order = np.argsort(in_order(self._query, self._scores), kind="stable")
        query = self._query[order]
        best = np.arange(len(query)) - np.searchsorted(query, query) < TRUE_ROWS
        order = order[best]
        self._query, self._scores, self._numbers = query[best], self._scores[order], self._numbers[order]
        last = np.flatnonzero(np.diff(self._query, append=-1))
        full = np.bincount(self._query, minlength=len(self.asked)) == TRUE_ROWS
        self.least[full, 0] = self._scores[last][full[self._query[last]]]

    def found(self) -> FoundRows:
        """The best rows of every query so far."""
        self._settle()
        return FoundRows(self._query, self._scores, self._numbers)

    @classmethod
    def merged(cls, trained: Trained, queries: TuningQueries, found: Sequence[FoundRows]) -> ExactAnswers:
        """The best rows of what several have found."""
        exact = cls(trained, queries)
        query, scores, numbers = (np.concatenate(column) for column in zip(*found, strict=True))
        # Which of equal rows comes first does not depend on which were found first.
        order = np.argsort(numbers, kind="stable")
        exact._query, exact._scores, exact._numbers = query[order], scores[order], numbers[order]
        exact._settle()
        return exact

    def truth(self) -> Truth:
        """The best rows of every query."""
        self._settle()
        shape = (len(self.asked), TRUE_ROWS)
        numbers, scores = np.full(shape, -1, np.int64), np.full(shape, -np.inf)
        place = np.arange(len(self._query)) - np.searchsorted(self._query, self._query)
        known = self._scores > -np.inf
        cells = self._query[known], place[known]
        numbers[cells], scores[cells] = self._numbers[known], self._scores[known]
        # Who scores as much as the one before shares its rank: either of them is an answer.
        sizes = np.abs(scores)
        if self.trained.euclidean:  # half of the squared distance
            sizes = np.maximum(0.5 * np.square(self.asked, dtype=np.float64).sum(axis=1)[:, None] - scores, 0)
        new = np.ones(shape, bool)
        with np.errstate(invalid="ignore"):
            new[:, 1:] = ~(scores[:, 1:] >= scores[:, :-1] - TIED * sizes[:, 1:])
        return Truth(numbers, np.maximum.accumulate(np.where(new, np.arange(TRUE_ROWS), 0), axis=1))
