"""Queries and their exact answers, to measure searches by. No vector is an answer to itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pcpq.index import Index, state_of
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.formats import VectorFile
from pcpq.search.snapshot import Snapshot
from pcpq.tuning.ground_truth import (
    GIVEN_QUERIES,
    QUERIES,
    TRUE_ROWS,
    ExactAnswers,
    Truth,
    TuningQueries,
    numbers_at,
)
from pcpq.tuning.measure import given_answers, stored_answers, stored_queries

# Kept vectors this near to a query, in parts of its largest number, are the query itself.
SAME = {"int8": 5e-3, "int16": 5e-5, "float16": 1e-3, "float32": 1e-6}
# Exact answers among which a query is looked for.
LOOKED_AT = 10
CODES_ONLY = "the index keeps no vectors: give the file that it was built from as --vectors FILE"


@dataclass(frozen=True)
class Exam:
    """Queries, and what must be found for them."""

    queries: Float32Array  # (n, d)
    own: Ids  # (n,) numbers of the queries that are vectors of the index, -1 of others
    truth: Truth
    kind: str

    def recall(self, found: Ids, k: int) -> float:
        """The share of the k best that is among (n, k) numbers; of two that score alike, either is right."""
        hits = (self.truth.ranks_of(found) < k).sum(axis=1)
        return float(np.minimum(hits, k).mean() / k)


def make_exam(index: Index, queries: Float32Array | None, file: VectorFile | None) -> Exam:
    """By queries that are given, or vectors of the index; answers from a file, or from the vectors kept."""
    snapshot = state_of(index).snapshot
    if file is None and index.keep is None:
        raise ValueError(CODES_ONLY)
    if file is not None:
        return exam_by_file(index, snapshot, queries, file)
    if queries is None:
        asked = stored_queries(snapshot, np.random.default_rng(index.seed))
        return Exam(asked.vectors, asked.own, stored_answers(snapshot, asked), "held out")
    asked, _ = TuningQueries.given(queries, None, GIVEN_QUERIES, index.seed)
    truth = stored_answers(snapshot, asked)
    own = own_numbers(snapshot, asked.vectors, truth)
    return Exam(asked.vectors, own, without_own(truth, own), "given")


def exam_by_file(index: Index, snapshot: Snapshot, queries: Float32Array | None, file: VectorFile) -> Exam:
    """Answers from the vectors that an index was built from."""
    if queries is None:
        places, rows = some_rows(file)
        asked = TuningQueries(rows, places, "held out")
    else:
        asked, _ = TuningQueries.given(queries, None, GIVEN_QUERIES, index.seed)
    exact, own, first = ExactAnswers(snapshot.trained, asked), asked.own.copy(), 0
    by_bytes = {row.tobytes(): number for number, row in enumerate(asked.vectors.astype(np.float32))}
    firsts = asked.vectors[:, 0].astype(np.float32)
    for batch in batches_of(file):
        exact.look(batch, first)
        if queries is not None:
            for row in np.flatnonzero(np.isin(batch[:, 0], firsts)):
                number = by_bytes.get(batch[row].tobytes())
                if number is not None:
                    own[number] = first + row
        first += len(batch)
    if first != len(index):
        raise ValueError(f"{file.path} has {first} vectors, the index {len(index)}; they must be the same")
    truth = exact.truth()
    if queries is not None:
        truth = without_own(truth, own)
    ids = file.ids()
    ids = np.arange(first) if ids is None else np.array(ids, object if isinstance(ids, list) else np.int64)
    numbers = numbers_of(snapshot, ids, file)
    return Exam(asked.vectors, numbers_at(numbers, own), truth.renumbered(numbers), asked.kind)


def batches_of(file: VectorFile) -> Iterator[Float32Array]:
    """(n_i, d) all vectors of a file as float32."""
    parts = file.vectors
    if isinstance(parts, np.ndarray):
        step = max(1, (1 << 22) // parts.shape[1])
        parts = (file.vectors[start : start + step] for start in range(0, len(file.vectors), step))
    return (np.ascontiguousarray(part, np.float32) for part in parts)


def some_rows(file: VectorFile) -> tuple[Ids, Float32Array]:
    """Places and vectors, spread evenly over a file that may not say how many it has."""
    places, rows, step, first = np.empty(0, np.int64), np.empty((0, file.dimensions), np.float32), 1, 0
    for batch in batches_of(file):
        some = np.arange(-first % step, len(batch), step)
        places, rows = np.concatenate([places, some + first]), np.concatenate([rows, batch[some]])
        first += len(batch)
        while len(places) > 2 * QUERIES:
            places, rows, step = places[::2], rows[::2], 2 * step
    some = np.unique(np.linspace(0, len(places) - 1, QUERIES).astype(np.intp))
    return places[some], rows[some]


def numbers_of(snapshot: Snapshot, ids: Any, file: VectorFile) -> Ids:
    """Numbers that searches have for ids of a file, all of which must be in the index."""
    if snapshot.of_words != (ids.dtype == object):
        kinds = ("words", "numbers") if snapshot.of_words else ("numbers", "words")
        raise ValueError(f"ids of the index are {kinds[0]}, those of {file.path} are {kinds[1]}")
    numbers = given_answers(snapshot, ids.reshape(-1, 1)).ids[:, 0] if snapshot.of_words else ids
    there = np.zeros(len(ids), bool)
    for rows in snapshot.find(ids):
        there |= rows >= 0
    if not there.all():
        raise ValueError(f"id {ids[~there][0]} of {file.path} is not in the index; they must be the same")
    return np.asarray(numbers, np.int64)


def own_numbers(snapshot: Snapshot, queries: Float32Array, truth: Truth) -> Ids:
    """(n,) which of their answers queries are themselves, -1 if none."""
    own, trained = np.full(len(queries), -1, np.int64), snapshot.trained
    same, asked = SAME[str(trained.keep)], in_direction(queries, trained.metric)
    least = same * np.abs(asked).max(axis=1)
    for column in range(min(LOOKED_AT, truth.ids.shape[1])):
        numbers = truth.ids[:, column]
        vectors = np.full(queries.shape, np.inf, np.float32)
        for part in snapshot.parts:
            rows = part.segment.find(numbers)
            there = part.has(rows)
            vectors[there] = part.segment.vectors(rows[there]) * np.float32(trained.unit)
        with np.errstate(invalid="ignore"):
            equal = np.abs(in_direction(vectors, trained.metric) - asked).max(axis=1) <= least
        own = np.where(equal & (own < 0) & (numbers >= 0), numbers, own)
    return own


def in_direction(rows: Float32Array, metric: str) -> Float32Array:
    """Of length 1 where lengths do not count."""
    if metric != "cosine":
        return rows
    unit: Float32Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def without_own(truth: Truth, own: Ids) -> Truth:
    """Answers less the query itself, one fewer of all."""
    mine = (truth.ids == own[:, None]) & (own >= 0)[:, None]
    rank = np.where(mine, truth.ranks, np.iinfo(np.int32).max).min(axis=1, keepdims=True)
    ranks = truth.ranks - (truth.ranks > rank)
    order = np.argsort(mine, axis=1, kind="stable")[:, : truth.ids.shape[1] - 1]
    return replace(
        truth, ids=np.take_along_axis(truth.ids, order, axis=1), ranks=np.take_along_axis(ranks, order, axis=1)
    )


# So many exact answers are known of every query, less itself.
MOST_RESULTS = TRUE_ROWS - 1
