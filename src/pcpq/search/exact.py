"""Exact search of a segment: brute force over its kept vectors.

A matrix product (BLAS) estimates the scores of many rows for many queries. Rows whose estimates are high enough
are scored by native code as in reranking, and the best are kept. So scores are those of any other search, and
results depend neither on the batch nor on the BLAS. For few queries, all rows are scored.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array, Ids
from pcpq.search.top_k import best_of, nothing
from pcpq.segment.segment import Allowed, Scores, Segment
from pcpq.util.batches import slices
from pcpq.util.threads import available_threads, map_threads

# With fewer queries, a product and the conversion of rows take longer than scoring all rows.
FEWEST_FOR_PRODUCTS = {"int8": 10, "int16": 10, "float16": 5, "float32": 8}
# Rows and queries of one product: its result stays in the cache.
ROWS_TOGETHER, QUERIES_TOGETHER = 1024, 256
# Vectors per compared row that may be read to find the longest.
MOST_PER_ROW = 16
# Rows per call without products: Ctrl-C is noticed between calls.
ROWS_PER_CALL = 1 << 18
# Multiplications that make a second thread worth while.
LEAST_THREADED = 20e6
# Multiplications that a thread does before it looks for more work, or for Ctrl-C.
WORK_PER_TURN = 1e9


def search_exactly(
    segment: Segment, queries: Float32Array, *, k: int, allowed: Allowed, threads: int | None
) -> tuple[Scores, Ids]:
    """Return (n, k) scores, larger is better, and ids of the best of all allowed rows, of which there are k."""
    rows = allowed_rows(segment, allowed)
    work_per_row = len(queries) * segment.trained.dimensions
    alone = (threads is None and len(queries) == 1) or len(rows) * work_per_row < LEAST_THREADED
    count = 1 if alone else available_threads(threads)
    products = len(queries) >= FEWEST_FOR_PRODUCTS[str(segment.trained.keep)]
    longest = np.inf if products else length_bound(segment, len(rows))
    if count == 1 and not products:
        only = ExactScan(segment, queries, k, longest)
        only.add(rows)
        return only.scores, only.ids
    scans: dict[int, ExactScan] = {}  # by thread

    def scan(part: slice) -> None:
        thread = threading.get_ident()
        if thread not in scans:
            scans[thread] = ExactScan(segment, queries, k, longest)
        scans[thread].add(rows[part])

    step = min(max(int(WORK_PER_TURN / work_per_row), ROWS_TOGETHER), -(-len(rows) // count))
    map_threads(scan, slices(len(rows), step), count)
    return best_of([(one.scores, one.ids) for one in scans.values()], len(queries), k)


def allowed_rows(segment: Segment, allowed: Allowed) -> NDArray[np.int32]:
    """Return the rows that a search may find, in list order."""
    if allowed.mask is None:
        return segment.row_numbers
    return segment.blocks.chosen_rows(allowed.mask).astype(np.int32)


def length_bound(segment: Segment, n_rows: int) -> float:
    """Return the length of the longest vector if bounds of scores need it; infinity means unknown."""
    bounded = segment.trained.keep in ("float16", "float32") and not segment.trained.euclidean
    # All vectors are read once to find the longest; a search of few rows would not repay that.
    return segment.longest_kept if bounded and n_rows * MOST_PER_ROW >= len(segment) else np.inf


class ExactScan:
    """The best rows of one thread so far.

    Parameters
    ----------
    segment : the segment that is searched
    queries : (n, d) queries in working units
    k : number of results
    longest : no row is longer; infinite if that is not known
    """

    def __init__(self, segment: Segment, queries: Float32Array, k: int, longest: float) -> None:
        n, self._searcher, self._queries = len(queries), segment.searcher, queries
        self.scores, self.ids = nothing(n, k)
        self._longest = longest
        self._products = n >= FEWEST_FOR_PRODUCTS[str(segment.trained.keep)]
        if self._products:
            columns = self._searcher.estimate_columns
            self._readable = np.empty((n, columns), np.float32)
            self._searcher.read_queries(queries=queries, out_queries=self._readable)
            # Fewer rows than results would be merged with all of them each time.
            self._rows_together = max(ROWS_TOGETHER, k)
            self._together = max(1, QUERIES_TOGETHER * ROWS_TOGETHER // self._rows_together)
            self._read = np.empty((self._rows_together, columns), np.float32)
            self._estimates = np.empty(min(n, self._together) * self._rows_together, np.float32)

    def add(self, rows: NDArray[np.int32]) -> None:
        """Compare more rows."""
        if self._products:
            for part in slices(len(rows), self._rows_together):
                self._add_by_products(rows[part])
        else:
            for part in slices(len(rows), ROWS_PER_CALL):
                self._searcher.search_exactly(
                    queries=self._queries,
                    rows=rows[part],
                    estimates=None,
                    longest=self._longest,
                    out_ids=self.ids,
                    out_scores=self.scores,
                )

    def _add_by_products(self, rows: NDArray[np.int32]) -> None:
        """Compare as many rows as are read at once."""
        read = self._read[: len(rows)]
        longest = self._searcher.read_rows(rows=rows, out_rows=read)
        for batch in slices(len(self._queries), self._together):
            some = self._readable[batch]
            estimates = self._estimates[: len(some) * len(rows)].reshape(len(some), len(rows))
            np.matmul(some, read.T, out=estimates)
            self._searcher.search_exactly(
                queries=self._queries[batch],
                rows=rows,
                estimates=estimates,
                longest=longest,
                out_ids=self.ids[batch],
                out_scores=self.scores[batch],
            )
