"""A search with its results, the work it took, and its measured time."""

from __future__ import annotations

import threading
import time
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from pcpq.explore.parameters import LIMITS, Wanted
from pcpq.explore.values import column_texts, id_text, is_number, number
from pcpq.index import Index, state_of
from pcpq.io.arrays import Float32Array
from pcpq.search.plan import plan_search
from pcpq.search.recall_curve import FEW, LIST_COST, RERANK_COST, RecallCurve
from pcpq.search.request import SearchRequest
from pcpq.search.result import Result
from pcpq.search.snapshot import Snapshot

# Targets that the slider stops at: denser where recall is more expensive.
TARGETS: tuple[float, ...] = (
    *(0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.875, 0.9, 0.91, 0.92, 0.93),
    *(0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.998, 0.999, 1.0),
)
# Repetitions of a search whose time is measured, and the seconds after which no more are made.
REPETITIONS, LEAST_REPETITIONS, PATIENCE = 25, 3, 0.25
# Attributes that are shown with a result.
MOST_COLUMNS = 12
SCORES = {"dot": "inner product", "cosine": "cosine", "euclidean": "squared distance"}
# Searches are timed one at a time, because two at once would measure each other.
timing = threading.Lock()


class Settings(NamedTuple):
    """How a search is done, and what is expected of it."""

    how: str  # "chosen" by the recall curve, "all" vectors are compared, "usual" without a curve
    probes: int | None = None  # None: the index decides
    rerank: int | None = None
    recall: float | None = None  # None: not known


def settings_for(snapshot: Snapshot, k: int, target: float, n_allowed: int, filtered: bool) -> Settings:
    """Return the settings that `Index.search` chooses for a target recall.

    They are given to the search as numbers: the index would warn of a target that is out of reach, and the page
    says that itself.
    """
    n, curve = len(snapshot), snapshot.recall
    if n <= FEW or (filtered and n_allowed <= FEW):
        return Settings("all")
    if curve is None:
        return Settings("usual")
    choice = curve.choose(k, target, share=n_allowed / n)
    return Settings("chosen", choice.probes, choice.rerank, choice.recall)


def found_by(index: Index, query: Float32Array, own: Any, wanted: Wanted) -> dict[str, Any]:
    """Search and return the results, the settings, the work and the time of the search.

    Parameters
    ----------
    index : an index that is not empty
    query : (d,) floats
    own : the id of the item that the query is; it is not a result. None: the query is no item
    wanted : k, target and condition
    """
    snapshot, filtered = state_of(index).snapshot, wanted.where is not None
    limits = {"where": wanted.where, "where_limits": LIMITS} if filtered else {}
    n_allowed = len(snapshot)
    if filtered:
        n_allowed = plan_search(snapshot, SearchRequest(k=1, probes=1, **limits)).n_allowed  # type: ignore[arg-type]
    k = min(wanted.k, max(n_allowed, 1))
    settings = settings_for(snapshot, k, wanted.target, n_allowed, filtered)
    options: dict[str, Any] = {"probes": settings.probes, "rerank": settings.rerank, **limits}
    columns = columns_of(index)
    # One more, because an item finds itself. A filter that excludes it would take time of its own.
    more = index.search(query, k + (own is not None), select=columns or None, **options)
    kept = places_of_results(more, own, wanted.k)
    return {
        "k": wanted.k,
        "target": wanted.target,
        "where": wanted.where,
        "allowed": n_allowed,
        "score": SCORES[index.metric],
        "columns": [
            {"name": name, "number": is_number(index.attributes.field(name).type)}  # type: ignore[union-attr]
            for name in columns
        ],
        "results": results_of(more, kept),
        "settings": settings._asdict(),
        "work": work_of(index, query, k, options),
        "time": measured_time(index, query, k, options),
        "curve": curve_of(snapshot.recall, k, n_allowed / max(len(snapshot), 1), settings),
    }


def columns_of(index: Index) -> list[str]:
    """Return the names of the attributes that results show."""
    return [] if index.attributes is None else list(index.attributes.names)[:MOST_COLUMNS]


def places_of_results(found: Result, own: Any, k: int) -> list[int]:
    """Return the places of at most k results, without empty places and the item itself."""
    ids = found.ids.tolist()
    return [i for i, some_id in enumerate(ids) if some_id is not None and some_id != -1 and some_id != own][:k]


def results_of(found: Result, kept: list[int]) -> list[dict[str, Any]]:
    """Return results as JSON values: id, score and the texts of their attributes."""
    texts: list[list[str | None]] = []
    if found.attributes is not None:
        texts = [column_texts(column.take(np.array(kept, np.int64))) for column in found.attributes.columns]
    return [
        {
            "id": id_text(found.ids[place]),
            "score": number(found.scores[place]),
            "attributes": [column[row] for column in texts],
        }
        for row, place in enumerate(kept)
    ]


def work_of(index: Index, query: Float32Array, k: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return the work of a search: lists, rows, candidates, and the microseconds of its stages."""
    work = index.explain(query, k, **options)
    stages = {name: number(1e6 * seconds) for name, seconds in work["seconds"].items()}
    names = ("lists", "lists_probed", "rows", "rows_scanned", "candidates_reranked", "reranked_by")
    return {name: work[name] for name in names} | {"microseconds": stages}


def measured_time(index: Index, query: Float32Array, k: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return the median time of a search on one thread, in microseconds, and the number of repetitions."""
    query = np.ascontiguousarray(query, np.float32)
    took: list[float] = []
    with timing:
        end = time.perf_counter() + PATIENCE
        while len(took) < REPETITIONS and (len(took) < LEAST_REPETITIONS or time.perf_counter() < end):
            start = time.perf_counter()
            index.search(query, k, **options)
            took.append(time.perf_counter() - start)
    return {"median": number(1e6 * median(took)), "repetitions": len(took)}


def curve_of(curve: RecallCurve | None, k: int, share: float, settings: Settings) -> list[dict[str, Any]]:
    """Return what every stop of the slider would choose; nothing if recall does not depend on it."""
    if curve is None or settings.how != "chosen":
        return []
    points = []
    for target in TARGETS:
        choice = curve.choose(k, target, share=share)
        rows = float(np.interp(choice.probes, curve.probes, curve.rows))
        # As the curve weighs it: in vectors scanned, with the cost of ranking lists and reranking.
        work = rows + LIST_COST * choice.probes + RERANK_COST * choice.rerank
        points.append({"target": target, "recall": choice.recall, "rows": number(rows), "work": number(work)})
    return points
