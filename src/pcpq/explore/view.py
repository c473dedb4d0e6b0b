"""Everything that the page shows, read from one open index."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from pcpq.explore.parameters import MOST_K, USUAL_K, USUAL_TARGET, Wanted, id_in
from pcpq.explore.sample import Sample, attribute_names
from pcpq.explore.searching import SCORES, TARGETS, columns_of, found_by
from pcpq.explore.values import id_text, number, rounded, shortened
from pcpq.index import Index, generation_of, state_of
from pcpq.io.arrays import Float32Array
from pcpq.search.recall_curve import FEW
from pcpq.search.snapshot import Snapshot

BARS = 24
# Vectors up to which codes are decoded to place results on the map: every time all codes are unpacked.
MOST_DECODED = 200_000


class Queries(NamedTuple):
    """Vectors of a file that the page searches with."""

    name: str
    vectors: Float32Array  # (n, d)
    ids: Sequence[Any] | None = None


class View:
    """What the page shows. Any number of threads can ask; nothing is ever written to the index.

    Parameters
    ----------
    index : an index that was opened for reading
    name : the name that the page shows
    queries : vectors to search with; None: only items of the index are
    """

    def __init__(self, index: Index, name: str, queries: Queries | None = None) -> None:
        if queries is not None and queries.vectors.shape[1] != index.dimensions:
            raise ValueError(
                f"{queries.name}: vectors have {queries.vectors.shape[1]} dimensions,"
                f" those of the index have {index.dimensions}"
            )
        self._index, self._name, self._queries = index, name, queries
        self._sampling = threading.Lock()
        self._sampled: tuple[Snapshot, Sample | None] | None = None

    def overview(self) -> dict[str, Any]:
        """Return size, settings and statistics of the newest commit, and what the page can do with it."""
        index = self._index
        index.refresh()
        snapshot, kind, stats = state_of(index).snapshot, state_of(index).kind, index.stats()
        config, curve, queries = index.config, snapshot.recall, self._queries
        return {
            "name": self._name,
            "generation": generation_of(index),
            "ids": kind or "int",
            "metric": index.metric,
            "score": SCORES[index.metric],
            "keep": index.keep,
            "few": FEW,
            "stats": {name: stat_of(value) for name, value in stats.items()},
            "settings": settings_shown(config.to_json() | {"quantizer": index.quantizer}),
            "lists": list_sizes(snapshot),
            "recall": None if curve is None else {"kind": curve.kind, "queries": curve.queries},
            "attributes": attribute_names(snapshot),
            "attributes_shown": len(columns_of(index)),
            "targets": TARGETS,
            "usual": {"k": USUAL_K, "target": USUAL_TARGET, "most": MOST_K},
            "queries": None
            if queries is None
            else {"name": shortened(queries.name), "rows": len(queries.vectors)},
        }

    def search(self, wanted: Wanted) -> dict[str, Any]:
        """Search by an item or by a row of the queries; a LookupError if there is no such item or row."""
        index = self._index
        if len(index) == 0:
            raise ValueError("the index is empty: there is nothing to find")
        own = None
        if wanted.id is not None:
            own = id_in(wanted.id, state_of(index).kind)
            query = index.reconstruct([own])[0]
            about = {"id": id_text(own), "row": None, "name": None}
        else:
            query, about = self._row(wanted.row or 0)
        found = found_by(index, query, own, wanted)
        return {"query": about, **found, "map": self._on_map(query, found["results"])}

    def _row(self, row: int) -> tuple[Float32Array, dict[str, Any]]:
        """Return a row of the queries, and its number and name."""
        if self._queries is None:
            raise LookupError("there is no file of queries: start with --queries FILE")
        vectors, ids = self._queries.vectors, self._queries.ids
        if row >= len(vectors):
            raise LookupError(f"{self._queries.name} has {len(vectors):,} rows, so there is no row {row}")
        name = None if ids is None else shortened(str(ids[row]))
        return vectors[row], {"id": None, "row": row, "name": name}

    def map(self) -> dict[str, Any]:
        """Return the points of the map: places, ids and lists of a sample."""
        sample = self._sample()
        if sample is None:
            return {"points": 0, "of": 0, "x": [], "y": [], "ids": [], "lists": [], "shares": [0, 0], "by": []}
        snapshot = sample.snapshot
        ids = snapshot.strings(sample.numbers) if snapshot.has_string_ids else sample.numbers
        return {
            "points": len(sample.numbers),
            "of": len(snapshot),
            "decoded": snapshot.trained.keep is None,
            "x": rounded(sample.places[:, 0]),
            "y": rounded(1.0 - sample.places[:, 1]),
            "ids": [id_text(some_id) for some_id in ids.tolist()],
            "lists": sample.lists.tolist(),
            "shares": [number(share) for share in sample.projection.shares],
            "by": attribute_names(snapshot),
        }

    def colours(self, by: str | None) -> dict[str, Any]:
        """Return the colours of the points by an attribute; None: by list."""
        sample = self._sample()
        if sample is None:
            raise ValueError("the index is empty: there is no map")
        return {"by": by, **sample.colours(by)}

    def _sample(self) -> Sample | None:
        """Return the sample of the present snapshot, which is drawn once."""
        with self._sampling:
            snapshot = state_of(self._index).snapshot
            if self._sampled is None or self._sampled[0] is not snapshot:
                self._sampled = snapshot, Sample.of(snapshot)
            return self._sampled[1]

    def _on_map(self, query: Float32Array, results: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the places of a query and its results on the map."""
        index, sample = self._index, self._sample()
        if sample is None:
            return {"query": None, "results": []}
        place = sample.place_of(np.asarray(query, np.float32)[None])
        ids = [result["id"] for result in results]
        found: list[Any] = [None] * len(ids)
        known = [i for i, some_id in enumerate(ids) if some_id is not None]
        if known and (index.keep is not None or len(index) <= MOST_DECODED):
            kind = state_of(index).kind
            with suppress(LookupError):  # removed by a commit that another page has loaded since
                vectors = index.reconstruct([id_in(ids[i], kind) for i in known])
                for i, one in zip(known, sample.place_of(vectors), strict=True):
                    found[i] = on_page(one)
        return {"query": on_page(place[0]), "results": found}


def on_page(place: Any) -> list[float] | None:
    """Return a place with the second coordinate downwards; None if it is not finite."""
    if not np.isfinite(place).all():
        return None
    return rounded([place[0], 1.0 - place[1]])


def stat_of(value: Any) -> Any:
    """Return a statistic as a JSON value."""
    if isinstance(value, dict):
        return {name: stat_of(part) for name, part in value.items()}
    return number(value) if isinstance(value, float) else value if isinstance(value, int) else str(value)


def settings_shown(settings: dict[str, Any]) -> dict[str, str]:
    """Return the settings of an index as text, without those that the page shows elsewhere."""
    hidden = ("metric", "keep", "n_lists", "chosen")
    return {name: str(value) for name, value in settings.items() if name not in hidden and value is not None}


def list_sizes(snapshot: Snapshot) -> dict[str, Any]:
    """Return how many lists have which size: bars of equal width, with removed rows counted."""
    sizes = np.zeros(len(snapshot.trained.partition), np.int64)
    for part in snapshot.parts:
        sizes += part.segment.list_sizes
    low, high = int(sizes.min()), int(sizes.max())
    width = max(1, -(-(high - low + 1) // BARS))
    bars = np.bincount((sizes - low) // width)
    return {
        "low": low,
        "width": width,
        "bars": bars.tolist(),
        "median": float(np.median(sizes)),
        "mean": number(sizes.mean()),
        "high": high,
    }
