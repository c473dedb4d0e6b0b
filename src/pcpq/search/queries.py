"""Conversion of queries to working units, and of scores back to the user's units."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcpq.io.arrays import Float32Array, as_vectors, handy, typical_unit, unit_rows, working_rows
from pcpq.io.foreign_arrays import as_array
from pcpq.segment.segment import Scores
from pcpq.segment.trained import Trained


class PreparedQueries(NamedTuple):
    """Queries as float32 in working units."""

    rows: Float32Array  # (n, d)
    unit: float  # by which the queries were divided


def prepare_queries(trained: Trained, queries: Any) -> PreparedQueries:
    """Check (n, d) or (d,) queries and convert them to working units; to length 1 for cosine."""
    queries = as_array(queries, "queries")
    queries = as_vectors(queries[None] if queries.ndim == 1 else queries, "queries")
    if queries.shape[1] != trained.dimensions:
        raise ValueError(f"queries have {queries.shape[1]} dimensions, the index has {trained.dimensions}")
    if trained.metric == "cosine":
        return PreparedQueries(unit_rows(queries, "queries", 0), trained.query_unit)
    if trained.query_unit == 1.0 and handy(queries):
        return PreparedQueries(queries.astype(np.float32, copy=False), 1.0)
    unit = trained.query_unit if trained.euclidean else typical_unit(queries, "queries")
    return PreparedQueries(working_rows(queries, unit, "queries"), unit)


def returned_scores(trained: Trained, exact: Scores, unit: float) -> Float32Array:
    """Return scores in the user's units; squared distances if the metric is Euclidean."""
    scores = exact.astype(np.float32)
    if trained.euclidean:
        scores = np.maximum(-scores, 0)
    if trained.unit * unit != 1.0:
        scores = scores * np.float32(trained.unit) * np.float32(unit)
    return scores
