"""What a search for one query did: lists, rows, candidates and the time of each stage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pcpq.search.execute import Asked, ask, find
from pcpq.search.plan import make_plan
from pcpq.search.snapshot import Snapshot


def explain(snapshot: Snapshot, query: Any, k: int, **options: Any) -> dict[str, Any]:
    """What Index.explain says."""
    known = ("probes", "rerank", "target_recall", "filter", "exclude", "where", "where_limits")
    for name in options:
        if name not in known:
            raise ValueError(f"explain has no option {name!r}")
    asked = ask(snapshot.trained, query)
    counts, seconds = np.zeros((1, 3), np.int64), np.zeros(4)
    given: dict[str, Any] = dict.fromkeys(known) | options
    plan = make_plan(snapshot, k, **given, threads=1)
    plan = replace(plan, k=max(min(plan.k, plan.n_allowed), 1))  # results are not shown
    find(snapshot, Asked(asked.rows[:1], asked.unit), plan, counts, seconds)
    probed, scanned, judged = (int(count) for count in counts[0])
    stages = ("rank lists", "tables", "scan", "judge")
    return {
        "segments": len(snapshot.parts),
        "lists": len(snapshot.trained.partition),
        "lists_probed": probed,
        "rows": len(snapshot),
        "rows_scanned": scanned,
        "candidates_judged": judged,
        "judged_by": snapshot.trained.keep or "codes",
        "seconds": dict(zip(stages, seconds.tolist(), strict=True)),
    }
