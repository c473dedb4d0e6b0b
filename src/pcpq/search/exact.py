"""Exact search of a segment: brute force over its kept vectors.

A matrix product (BLAS) estimates the scores of many rows for many queries. Rows whose estimates are high enough
are scored by native code as in reranking, and the best are kept. So scores are those of any other search, and
results depend neither on the batch nor on the BLAS. For few queries, all rows are scored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, Ids
from pcpq.search.top_k import best_of
from pcpq.segment.segment import Allowed, Scores, Segment
from pcpq.util.batches import slices
from pcpq.util.threads import available_threads, map_threads, one_blas_thread

# With fewer queries, a product takes longer than scoring all rows, which integers make fast.
FEWEST_FOR_PRODUCTS = {"int8": 24, "int16": 24, "float16": 8, "float32": 12}
# Rows and queries of one product: its result stays in the cache.
ROWS_TOGETHER, QUERIES_TOGETHER = 1024, 256
# Rows per call without products: Ctrl-C is noticed between calls.
ROWS_PER_CALL = 1 << 16
# Multiplications that make a second thread worth while.
LEAST_THREADED = 20e6


def search_exactly(
    segment: Segment, queries: Float32Array, *, k: int, allowed: Allowed, threads: int | None
) -> tuple[Scores, Ids]:
    """Return (n, k) scores, larger is better, and ids of the best of all allowed rows, of which there are k."""
    rows = allowed_rows(segment, allowed)
    work = len(rows) * len(queries) * segment.trained.dimensions
    count = 1 if threads is None and len(queries) == 1 else available_threads(threads)
    parts = slices(len(rows), -(-len(rows) // (count if work >= LEAST_THREADED else 1)))
    found = map_threads(lambda part: best_rows(segment, queries, rows[part], k), parts, threads)
    return best_of(found, len(queries), k)


def allowed_rows(segment: Segment, allowed: Allowed) -> NDArray[np.int32]:
    """Return the rows that a search may find, in list order."""
    if allowed.mask is None:
        return np.arange(len(segment), dtype=np.int32)
    return segment.blocks.chosen_rows(allowed.mask).astype(np.int32)


@one_blas_thread
def best_rows(segment: Segment, queries: Float32Array, rows: NDArray[np.int32], k: int) -> tuple[Scores, Ids]:
    """Return (n, k) scores and ids of the best of some rows; -inf and -1 if there are fewer than k."""
    n, searcher = len(queries), segment.searcher
    scores, ids = np.full((n, k), -np.inf), np.full((n, k), -1, np.int64)
    if n < FEWEST_FOR_PRODUCTS[str(segment.trained.keep)]:
        for part in slices(len(rows), ROWS_PER_CALL):
            searcher.search_exactly(
                queries=queries, rows=rows[part], estimates=None, longest=0.0, out_ids=ids, out_scores=scores
            )
        return scores, ids
    columns = searcher.estimate_columns
    readable = np.empty((n, columns), np.float32)
    searcher.read_queries(queries=queries, out_queries=readable)
    together = max(ROWS_TOGETHER, k)
    read = np.empty((together, columns), np.float32)
    products = np.empty(min(n, QUERIES_TOGETHER) * together, np.float32)
    for part in slices(len(rows), together):
        some = rows[part]
        longest = searcher.read_rows(rows=some, out_rows=read[: len(some)])
        for batch in slices(n, QUERIES_TOGETHER):
            asked = readable[batch]
            estimates = products[: len(asked) * len(some)].reshape(len(asked), len(some))
            np.matmul(asked, read[: len(some)].T, out=estimates)
            searcher.search_exactly(
                queries=queries[batch],
                rows=some,
                estimates=estimates,
                longest=longest,
                out_ids=ids[batch],
                out_scores=scores[batch],
            )
    return scores, ids
