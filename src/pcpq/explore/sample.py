"""The map: a sample of the vectors of an index in two dimensions, and their colours."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.explore.projection import Projection, Table
from pcpq.explore.values import column_texts, is_number, shortened, text_of
from pcpq.io.arrays import Float32Array, Ids
from pcpq.search.reconstruct import selected_attributes, vectors_of_rows
from pcpq.search.snapshot import Snapshot
from pcpq.segment.part import Part

MOST_POINTS = 4000
# Colours of the page: for lists and values that have no order, and for steps from low to high.
COLOURS, STEPS = 7, 6
NOTHING, OTHER = "(none)", "other"


@dataclass(frozen=True, eq=False)
class Sample:
    """Some vectors of a snapshot, with their places on the map."""

    snapshot: Snapshot
    numbers: Ids  # (n,) integer ids, also of string ids
    lists: NDArray[np.int64]  # (n,)
    projection: Projection
    places: Table  # (n, 2)

    @classmethod
    def of(cls, snapshot: Snapshot, seed: int = 0) -> Sample | None:
        """Return a random sample of at most MOST_POINTS vectors; None if there are no vectors."""
        generator = np.random.default_rng(seed)
        numbers, lists = [], []
        for part, count in zip(snapshot.parts, counts_of(snapshot), strict=True):
            rows = some_rows(part, count, generator)
            numbers.append(part.segment.checked_ids[rows])
            lists.append(np.searchsorted(part.segment.blocks.rows, rows, side="right") - 1)
        if not sum(map(len, numbers)):
            return None
        ids, order = np.unique(np.concatenate(numbers), return_index=True)
        vectors = vectors_of_numbers(snapshot, ids)
        projection = Projection.of(vectors)
        return cls(
            snapshot,
            ids,
            np.concatenate(lists)[order].astype(np.int64),
            projection,
            projection.places(vectors),
        )

    def place_of(self, vectors: Float32Array) -> Table:
        """Return the (n, 2) places of other vectors on the map; they may be outside of it."""
        return self.projection.places(as_mapped(self.snapshot, vectors))

    def colours(self, by: str | None) -> dict[str, Any]:
        """Return the group of every point, and the legend; `by` is the name of an attribute, None: by list."""
        if by is None:
            return self._by_list()
        if by not in attribute_names(self.snapshot):
            raise ValueError(f"the index has no attribute {by[:50]!r}")
        column = selected_attributes(self.snapshot, self.numbers, [by]).column(0)
        if is_number(column.type):
            values = np.array([np.nan if v is None else float(v) for v in column.to_pylist()])
            if len(np.unique(values[~np.isnan(values)])) > COLOURS:
                return by_steps(values)
        return by_value(column_texts(column))

    def _by_list(self) -> dict[str, Any]:
        """Return colours by list; lists that follow each other along the first direction differ."""
        used, inverse = np.unique(self.lists, return_inverse=True)
        middles = np.bincount(inverse, self.places[:, 0]) / np.bincount(inverse)
        rank = np.empty(len(used), np.int64)
        rank[np.argsort(middles)] = np.arange(len(used))
        shared = len(used) > COLOURS
        legend = [] if shared else [f"list {number}" for number in used[np.argsort(middles)]]
        groups = rank[inverse] % COLOURS
        return {"groups": groups.tolist(), "kind": "lists", "legend": entries(groups, legend)}


def counts_of(snapshot: Snapshot) -> list[int]:
    """Return how many rows of every part are drawn: MOST_POINTS of all, in proportion to their sizes."""
    ends = np.cumsum([0, *(part.count for part in snapshot.parts)])
    total = int(ends[-1])
    if total > MOST_POINTS:
        ends = np.floor(ends * (MOST_POINTS / total) + 0.5)
    counts: list[int] = np.diff(ends).astype(np.int64).tolist()
    return counts


def some_rows(part: Part, count: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Return some rows of a part that are not removed, each once."""
    if part.has_tombstones:
        left = part.rows_left()
        return left if count == len(left) else generator.choice(left, count, replace=False)
    return generator.choice(len(part.segment), count, replace=False).astype(np.intp)


def vectors_of_numbers(snapshot: Snapshot, numbers: Ids) -> Float32Array:
    """Return the vectors of integer ids, as the map shows them."""
    found = snapshot.find_numbers(numbers)
    return as_mapped(snapshot, vectors_of_rows(snapshot, len(numbers), found))


def as_mapped(snapshot: Snapshot, vectors: Float32Array) -> Float32Array:
    """Return vectors with length 1 for "cosine", which compares nothing but directions."""
    if snapshot.trained.metric != "cosine":
        return vectors
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def attribute_names(snapshot: Snapshot) -> list[str]:
    """Return the names of all attributes; none if the index has none."""
    return list(snapshot.columns.names) if snapshot.has_attributes else []


def by_steps(values: NDArray[np.float64]) -> dict[str, Any]:
    """Return colours of numbers: about equally many points in every step from low to high."""
    known = values[np.isfinite(values)]
    inner = np.unique(np.quantile(known, np.linspace(0, 1, STEPS + 1)[1:-1], method="lower"))
    groups = np.where(np.isnan(values), -1, np.searchsorted(inner, values, side="left"))
    legend = []
    for step in range(len(inner) + 1):
        inside = known[groups[np.isfinite(values)] == step]
        low, high = (text_of(float(end)) for end in (inside.min(), inside.max())) if len(inside) else ("", "")
        legend.append(f"{low}" if low == high else f"{low} \N{EN DASH} {high}")
    return {"groups": groups.tolist(), "kind": "steps", "legend": entries(groups, legend)}


def by_value(texts: list[str | None]) -> dict[str, Any]:
    """Return colours of values without an order: one for each of the most frequent, none for the others."""
    counts = Counter(text for text in texts if text is not None)
    room = COLOURS if len(counts) <= COLOURS else COLOURS - 1
    common = [text for text, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:room]]
    number = {text: place for place, text in enumerate(common)}
    groups = np.array([-1 if text is None else number.get(text, -2) for text in texts])
    return {"groups": groups.tolist(), "kind": "values", "legend": entries(groups, map(shortened, common))}


def entries(groups: NDArray[np.int64], labels: Any) -> list[dict[str, Any]]:
    """Return the legend: a label and the number of points of every group; -1 is null, -2 is all others."""
    named = [(group, label) for group, label in enumerate(labels)]
    if named:
        named += [(group, label) for group, label in ((-2, OTHER), (-1, NOTHING)) if (groups == group).any()]
    return [{"group": group, "label": label, "points": int((groups == group).sum())} for group, label in named]
