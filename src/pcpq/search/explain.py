"""Explanation of a search for one query: lists, rows, candidates and the time of each stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcpq.search.execute import execute
from pcpq.search.plan import plan_search
from pcpq.search.queries import prepare_queries
from pcpq.search.request import SearchRequest
from pcpq.search.searchable import ScanTrace
from pcpq.search.snapshot import Snapshot
from pcpq.util.warning import warn_user

STAGES = ("rank lists", "lookup tables", "scan", "rerank")
# Former names of keys, of an explanation and of its seconds.
RENAMED = {"candidates_judged": "candidates_reranked", "judged_by": "reranked_by"}
RENAMED_STAGES = {"tables": "lookup tables", "judge": "rerank"}


class RenamedKeys(dict[str, Any]):
    """A dict that also accepts the former names of its keys, with a warning."""

    def __init__(self, items: dict[str, Any], renamed: dict[str, str], name: str) -> None:
        super().__init__(items)
        self.renamed, self.name = renamed, name

    def __missing__(self, key: str) -> Any:
        if key not in self.renamed:
            raise KeyError(key)
        now = self.renamed[key]
        warn_user(f"{self.name}[{key!r}] is now {self.name}[{now!r}]", DeprecationWarning)
        return self[now]

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        """Return the state for pickle and copy: a plain dict."""
        return dict, (dict(self),)


def explain(snapshot: Snapshot, query: Any, request: SearchRequest) -> dict[str, Any]:
    """Return what a search for one query does, as `Index.explain` returns it."""
    prepared = prepare_queries(snapshot.trained, query)
    plan = plan_search(snapshot, request)
    plan = plan._replace(
        k=max(min(plan.k, plan.n_allowed), 1)
    )  # explain returns no results, so k may be smaller
    trace = ScanTrace(np.zeros((1, 3), np.int64), np.zeros(len(STAGES)))
    execute(snapshot, prepared.rows[:1], plan, trace)
    probed, scanned, reranked = (int(count) for count in trace.counts[0])
    seconds = dict(zip(STAGES, trace.seconds.tolist(), strict=True))
    return RenamedKeys(
        {
            "segments": len(snapshot.parts),
            "lists": len(snapshot.trained.partition),
            "lists_probed": probed,
            "rows": len(snapshot),
            "rows_scanned": scanned,
            "candidates_reranked": reranked,
            "reranked_by": snapshot.trained.keep or "codes",
            "seconds": RenamedKeys(seconds, RENAMED_STAGES, 'explain()["seconds"]'),
        },
        RENAMED,
        "explain()",
    )
