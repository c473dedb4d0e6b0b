"""Queries with their exact answers, for measuring recall. A vector is not an answer to itself."""

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

# A kept vector is the query itself if it differs by at most this share of the query's largest value.
SAME = {"int8": 5e-3, "int16": 5e-5, "float16": 1e-3, "float32": 1e-6}
# Number of exact answers that are compared with the query.
ANSWERS_COMPARED = 10
CODES_ONLY = "the index keeps no vectors: give the file that it was built from as --vectors FILE"


@dataclass(frozen=True)
class Exam:
    """Queries with their ground truth."""

    queries: Float32Array  # (n, d)
    own: Ids  # (n,) number of the vector that is the query itself, -1 if none is
    truth: Truth
    kind: str

    def recall(self, found: Ids, k: int) -> float:
        """Return the share of the k best that is among (n, k) found numbers.

        Vectors with equal scores have equal ranks, so that either counts as found.
        """
        hits = (self.truth.ranks_of(found) < k).sum(axis=1)
        return float(np.minimum(hits, k).mean() / k)


def make_exam(index: Index, queries: Float32Array | None, file: VectorFile | None) -> Exam:
    """Return queries with their ground truth.

    Queries are given, or vectors of the index. Exact answers come from a file, or from the kept vectors.
    """
    snapshot = state_of(index).snapshot
    if file is None and index.keep is None:
        raise ValueError(CODES_ONLY)
    if file is not None:
        return exam_by_file(index, snapshot, queries, file)
    if queries is None:
        sample = stored_queries(snapshot, np.random.default_rng(index.seed))
        return Exam(sample.vectors, sample.own, stored_answers(snapshot, sample), "held out")
    sample, _ = TuningQueries.given(queries, None, GIVEN_QUERIES, index.seed)
    truth = stored_answers(snapshot, sample)
    own = own_numbers(snapshot, sample.vectors, truth)
    return Exam(sample.vectors, own, without_own(truth, own), "given")


def exam_by_file(index: Index, snapshot: Snapshot, queries: Float32Array | None, file: VectorFile) -> Exam:
    """Return queries with their ground truth, computed from the file that the index was built from."""
    if queries is None:
        positions, rows = some_rows(file)
        sample = TuningQueries(rows, positions, "held out")
    else:
        sample, _ = TuningQueries.given(queries, None, GIVEN_QUERIES, index.seed)
    exact, own, first = ExactAnswers(snapshot.trained, sample), sample.own.copy(), 0
    by_bytes = {row.tobytes(): number for number, row in enumerate(sample.vectors.astype(np.float32))}
    firsts = sample.vectors[:, 0].astype(np.float32)
    for batch in batches_of(file):
        exact.observe(batch, first)
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
    return Exam(sample.vectors, numbers_at(numbers, own), truth.renumbered(numbers), sample.kind)


def batches_of(file: VectorFile) -> Iterator[Float32Array]:
    """Return all vectors of a file as (n_i, d) float32 batches."""
    parts = file.vectors
    if isinstance(parts, np.ndarray):
        step = max(1, (1 << 22) // parts.shape[1])
        parts = (file.vectors[start : start + step] for start in range(0, len(file.vectors), step))
    return (np.ascontiguousarray(part, np.float32) for part in parts)


def some_rows(file: VectorFile) -> tuple[Ids, Float32Array]:
    """Return positions and vectors, evenly spaced in a file whose number of rows may not be known."""
    positions, rows, step, first = np.empty(0, np.int64), np.empty((0, file.dimensions), np.float32), 1, 0
    for batch in batches_of(file):
        some = np.arange(-first % step, len(batch), step)
        positions, rows = np.concatenate([positions, some + first]), np.concatenate([rows, batch[some]])
        first += len(batch)
        while len(positions) > 2 * QUERIES:
            positions, rows, step = positions[::2], rows[::2], 2 * step
    some = np.unique(np.linspace(0, len(positions) - 1, QUERIES).astype(np.intp))
    return positions[some], rows[some]


def numbers_of(snapshot: Snapshot, ids: Any, file: VectorFile) -> Ids:
    """Return the internal numbers of the ids of a file, all of which must be in the index."""
    if snapshot.has_string_ids != (ids.dtype == object):
        kinds = ("strings", "integers") if snapshot.has_string_ids else ("integers", "strings")
        raise ValueError(f"ids of the index are {kinds[0]}, those of {file.path} are {kinds[1]}")
    numbers = given_answers(snapshot, ids.reshape(-1, 1)).ids[:, 0] if snapshot.has_string_ids else ids
    present = np.zeros(len(ids), bool)
    for rows in snapshot.find(ids):
        present |= rows >= 0
    if not present.all():
        raise ValueError(f"id {ids[~present][0]} of {file.path} is not in the index; they must be the same")
    return np.asarray(numbers, np.int64)


def own_numbers(snapshot: Snapshot, queries: Float32Array, truth: Truth) -> Ids:
    """Return (n,) the number of the exact answer that is the query itself, -1 if none is."""
    own, trained = np.full(len(queries), -1, np.int64), snapshot.trained
    same, scaled = SAME[str(trained.keep)], in_direction(queries, trained.metric)
    least = same * np.abs(scaled).max(axis=1)
    for column in range(min(ANSWERS_COMPARED, truth.ids.shape[1])):
        numbers = truth.ids[:, column]
        vectors = np.full(queries.shape, np.inf, np.float32)
        for part in snapshot.parts:
            rows = part.segment.find(numbers)
            present = part.has(rows)
            vectors[present] = part.segment.vectors(rows[present]) * np.float32(trained.unit)
        with np.errstate(invalid="ignore"):
            equal = np.abs(in_direction(vectors, trained.metric) - scaled).max(axis=1) <= least
        own = np.where(equal & (own < 0) & (numbers >= 0), numbers, own)
    return own


def in_direction(rows: Float32Array, metric: str) -> Float32Array:
    """Return rows scaled to length 1 for the metric cosine, otherwise unchanged."""
    if metric != "cosine":
        return rows
    unit: Float32Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def without_own(truth: Truth, own: Ids) -> Truth:
    """Return the ground truth without the query itself, with one answer less per query."""
    is_own = (truth.ids == own[:, None]) & (own >= 0)[:, None]
    rank = np.where(is_own, truth.ranks, np.iinfo(np.int32).max).min(axis=1, keepdims=True)
    ranks = truth.ranks - (truth.ranks > rank)
    order = np.argsort(is_own, axis=1, kind="stable")[:, : truth.ids.shape[1] - 1]
    return replace(
        truth, ids=np.take_along_axis(truth.ids, order, axis=1), ranks=np.take_along_axis(ranks, order, axis=1)
    )


# Number of exact answers per query, without the query itself.
MOST_RESULTS = TRUE_ROWS - 1
