"""The result of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from pcpq.io.arrays import Float32Array

if TYPE_CHECKING:
    import pyarrow


class Result(NamedTuple):
    """Results of a search, best first: arrays of shape (n, k), or (k,) for a single query."""

    scores: Float32Array
    ids: NDArray[Any]  # int64, -1 where there is none; or str, None where there is none

    @property
    def distances(self) -> Float32Array:
        """The scores of a search by Euclidean distance: squared distances, where smaller is better."""
        return self.scores

    @property
    def attributes(self) -> pyarrow.Table | None:
        """The columns of `search(..., select=...)`: one row per hit, in the order of `ids.ravel()`.

        Rows of missing results are null. None if no columns were selected.
        """
        return None


class SelectedResult(Result):
    """A result with the attributes of its hits."""

    attributes: Any = None


def with_attributes(result: Result, table: pyarrow.Table) -> Result:
    """Return a result with a table of attributes, one row per hit."""
    found = SelectedResult(*result)
    found.attributes = table
    return found
