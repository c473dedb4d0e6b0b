"""Conversion of queries to working units, and of scores back to the user's units."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq import _core
from pcpq.io.arrays import Float32Array, as_vectors, typical_unit, unit_rows, working_rows
from pcpq.io.foreign_arrays import as_array
from pcpq.segment.segment import Scores
from pcpq.segment.trained import Trained


class PreparedQueries(NamedTuple):
    """Queries as float32 in working units."""

    rows: Float32Array  # (n, d)
    unit: float | NDArray[np.float64]  # by which all queries were divided, or (n, 1) for each of them


def prepare_queries(trained: Trained, queries: Any) -> PreparedQueries:
    """Check (n, d) or (d,) queries and convert them to working units; to length 1 for cosine.

    A batch may have no queries.
    """
    queries = as_array(queries, "queries")
    if queries.ndim == 2 and len(queries) == 0 and queries.shape[1] in (0, trained.dimensions):
        return PreparedQueries(np.empty((0, trained.dimensions), np.float32), trained.query_unit)
    queries = as_vectors(queries[None] if queries.ndim == 1 else queries, "queries")
    if queries.shape[1] != trained.dimensions:
        raise ValueError(f"queries have {queries.shape[1]} dimensions, the index has {trained.dimensions}")
    cosine = trained.metric == "cosine"
    if queries.dtype == np.float32 and queries.flags.c_contiguous and queries.flags.aligned:
        rows = np.empty(queries.shape, np.float32)
        if _core.prepare_queries(
            queries=queries, query_unit=trained.query_unit, unit_length=cosine, out_queries=rows
        ):
            return PreparedQueries(rows, trained.query_unit)
    # Other dtypes are converted, and queries of unusual length scaled, so that float32 can represent them.
    if cosine:
        return PreparedQueries(unit_rows(queries, "queries", 0), trained.query_unit)
    if trained.euclidean:
        return PreparedQueries(working_rows(queries, trained.query_unit, "queries"), trained.query_unit)
    # A unit for each query: beside a long one, the values of a short one would be lost.
    typical_unit(queries, "queries")  # refuses values that are not finite
    units = np.array([[typical_unit(query[None], "queries")] for query in queries])
    return PreparedQueries(np.ascontiguousarray(queries / units, np.float32), units)


def returned_scores(trained: Trained, exact: Scores, unit: float | NDArray[np.float64]) -> Float32Array:
    """Return scores in the user's units: squared distances for "euclidean", from -1 to 1 for "cosine"."""
    if not isinstance(unit, float):
        exact, unit = exact * unit, 1.0
    scores = np.empty(exact.shape, np.float32)
    _core.return_scores(
        scores=np.ascontiguousarray(exact).reshape(-1),
        euclidean=trained.euclidean,
        row_unit=trained.unit,
        query_unit=unit,
        unit_length=trained.metric == "cosine",
        out_scores=scores.reshape(-1),
    )
    return scores
