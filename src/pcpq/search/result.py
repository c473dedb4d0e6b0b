"""The result of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array
from pcpq.util.notebook import table

# Hits per query and queries that `repr` and notebooks show.
HITS_IN_LINE = 3
HITS_SHOWN, QUERIES_SHOWN = 10, 5
LONGEST_VALUE = 100

if TYPE_CHECKING:
    import pyarrow


class ScoresAndIds(NamedTuple):
    """Scores and ids of a search."""

    scores: Float32Array
    ids: NDArray[Any]  # int64, -1 where there is none; or str, None where there is none


class Result(ScoresAndIds):
    """Results of a search, best first: arrays of shape (n, k), or (k,) for a single query.

    A result unpacks to scores and ids: `scores, ids = index.search(...)`.

    Parameters
    ----------
    scores : inner products ("dot") or cosines ("cosine"), larger is better; squared distances ("euclidean"),
        smaller is better
    ids : int64, -1 where there is none; or str, None where there is none
    metric : "dot", "cosine" or "euclidean"; None: not known
    attributes : the columns of `search(..., select=...)`, an Arrow table with one row per hit, in the order of
        `ids.ravel()`. Rows of missing results are null. None if no columns were selected
    """

    # Defaults of the class: what is not set on a result takes no time, of some microseconds for a single query.
    metric: str | None = None
    attributes: pyarrow.Table | None = None

    def __new__(
        cls,
        scores: Float32Array,
        ids: NDArray[Any],
        metric: str | None = None,
        attributes: pyarrow.Table | None = None,
    ) -> Result:
        """Return a result of these arrays."""
        result = tuple.__new__(cls, (scores, ids))
        result.metric = metric
        if attributes is not None:
            result.attributes = attributes
        return result

    def _replace(self, **values: Any) -> Result:
        return Result(**(self._asdict() | vars(self) | values))

    @property
    def distances(self) -> Float32Array:
        """Distances, where smaller is better: squared for "euclidean", 1 - score for "cosine".

        Inner products are no distances: for "dot" there is an AttributeError.
        """
        if self.metric == "euclidean":
            return self.scores
        if self.metric == "cosine":
            distances: Float32Array = np.float32(1.0) - self.scores
            return distances
        if self.metric == "dot":
            raise AttributeError("inner products ('dot') are no distances; use scores, where larger is better")
        raise AttributeError("the metric of this result is not known, so its distances are not; use scores")

    def __repr__(self) -> str:
        metric = "" if self.metric is None else f", {self.metric}"
        if np.ndim(self.ids) == 1:
            return f"Result({self._line(self.scores, self.ids)}{metric})"
        n, k = np.shape(self.ids)
        first = f": {self._line(self.scores[0], self.ids[0])}" + ("; ..." if n > 1 else "") if n else ""
        return f"Result({n:,} {'query' if n == 1 else 'queries'}, k={k:,}{metric}{first})"

    def _line(self, scores: Float32Array, ids: NDArray[Any]) -> str:
        """Return the first hits of a query as text."""
        hits = [f"{some_id!r} ({score:.4g})" for some_id, score in hits_of(scores, ids)]
        if not hits:
            return "no hits"
        count = f"{len(hits):,} {'hit' if len(hits) == 1 else 'hits'}"
        return f"{count}: {', '.join(hits[:HITS_IN_LINE])}{', ...' * (len(hits) > HITS_IN_LINE)}"

    def _repr_html_(self) -> str:
        """Return the first hits of the first queries as a table, for notebooks."""
        scores, ids = np.atleast_2d(self.scores), np.atleast_2d(self.ids)
        name = "squared distance" if self.metric == "euclidean" else "score"
        single, rows = np.ndim(self.ids) == 1, []
        names = [] if self.attributes is None else self.attributes.column_names
        columns = [] if self.attributes is None else self.attributes.columns
        for number, found in enumerate(zip(scores[:QUERIES_SHOWN], ids[:QUERIES_SHOWN], strict=True)):
            for rank, (some_id, score) in enumerate(hits_of(*found)[:HITS_SHOWN], 1):
                place = number * ids.shape[1] + rank - 1
                values = [str(column[place].as_py())[:LONGEST_VALUE] for column in columns]
                rows.append(
                    ["" if rank > 1 else str(number)] * (not single)
                    + [str(rank), str(some_id), f"{score:.4g}", *values]
                )
        head = ["query"] * (not single) + ["rank", "id", name, *names]
        shown = f"{len(ids):,} {'query' if len(ids) == 1 else 'queries'}, k={ids.shape[1]:,}"
        if len(ids) > QUERIES_SHOWN or ids.shape[1] > HITS_SHOWN:
            shown += f"; at most {HITS_SHOWN} hits of the first {min(len(ids), QUERIES_SHOWN)} are shown"
        return table("Result" if self.metric is None else f"Result, {self.metric}", head, rows, shown)


def hits_of(scores: Float32Array, ids: NDArray[Any]) -> list[tuple[Any, float]]:
    """Return pairs of id and score, without places where nothing was found."""
    pairs = zip(ids.tolist(), scores.tolist(), strict=True)
    return [(some_id, score) for some_id, score in pairs if some_id is not None and some_id != -1]
