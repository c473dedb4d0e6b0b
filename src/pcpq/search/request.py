"""The parameters of a search as the caller gave them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pcpq.search.filters import Bitmap
from pcpq.search.recall_curve import check_target
from pcpq.search.where import WhereLimits, check_condition
from pcpq.util.threads import available_threads
from pcpq.util.validation import whole_number

LARGEST_K = 1 << 30
LARGEST_PROBES = 1 << 30
LARGEST_RERANK = 1 << 34


# The parameters of a search without its filters: k, target_recall, probes, rerank and threads.
Settings = tuple[int, float | None, int | None, int | None, int | None]


class SearchRequest(NamedTuple):
    """The parameters of a search, as `Index.search` describes them; the same for one index and for shards."""

    k: int = 10
    target_recall: float | None = None
    probes: int | None = None
    rerank: int | None = None
    filter: Bitmap | None = None
    exclude: Bitmap | None = None
    where: str | None = None
    where_limits: WhereLimits | None = None
    threads: int | None = None
    exact: bool = False

    @property
    def settings(self) -> Settings:
        """All parameters of an approximate search but the filters."""
        return self.k, self.target_recall, self.probes, self.rerank, self.threads

    @property
    def filtered(self) -> bool:
        """Whether only some vectors may be found."""
        return self.filter is not None or self.exclude is not None or self.where is not None

    def check(self) -> None:
        """Raise a ValueError that names the first parameter which is out of range."""
        whole_number("k", self.k, 1, LARGEST_K)
        if self.probes is not None:
            whole_number("probes", self.probes, 1, LARGEST_PROBES)
        if self.rerank is not None:
            whole_number("rerank", self.rerank, 1, LARGEST_RERANK)
        check_target(self.target_recall, self.probes)
        if not isinstance(self.exact, (bool, np.bool_)):
            raise ValueError(f"exact is {self.exact!r}; expected True or False")
        if self.exact:
            for name in ("target_recall", "probes", "rerank"):
                if getattr(self, name) is not None:
                    raise ValueError(f"exact=True compares all vectors: {name} has no meaning then")
        available_threads(self.threads)
        if self.where is not None:
            check_condition(self.where, self.where_limits)
