"""What an actor does: it holds its slice of one or two generations and searches it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray
from numpy.typing import NDArray

from pcpq.integrations.ray.slices import SlicedPart, bounds_of, sliced
from pcpq.integrations.ray.wire import cut, from_pieces
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import is_id
from pcpq.search.filters import allowed_rows, as_bitmap
from pcpq.search.recall_curve import RecallCurve
from pcpq.search.reconstruct import attributes_of, vectors_of
from pcpq.search.snapshot import Snapshot
from pcpq.search.statistics import statistics
from pcpq.search.top_k import best_of
from pcpq.search.where import WhereLimits
from pcpq.segment.segment import Allowed
from pcpq.segment.trained import Trained
from pcpq.store.manifest import Manifest, check_of, read_manifest
from pcpq.store.store import Store
from pcpq.tuning.measure import measure_index

# Queries of a call that does not wait for its turn.
FEW_QUERIES = 64
# Filters whose rows a shard remembers.
MOST_FILTERS = 16

Key = tuple[int, int]


class GenerationGoneError(Exception):
    """A shard does not hold a generation, or no more."""


class Filter(NamedTuple):
    """Which ids may be found; looked up once by every shard."""

    key: str
    content: Any  # a list of one reference to (filter, exclude): not sent unless wanted
    where: str | None
    limits: WhereLimits | None = None


class ShardRequest(NamedTuple):
    """What a shard is asked for."""

    k: int
    probes: int
    reranks: Sequence[int]  # of every part
    wanted: Filter | None
    pieces: int  # of the result


class Description(NamedTuple):
    """What searches have to know of a generation."""

    key: Key
    manifest: Manifest
    bounds: Ids
    trained: Trained
    recall: RecallCurve | None
    counts: tuple[int, ...]  # rows that are there, of every part


def key_of(manifest: Manifest) -> Key:
    """What tells generations apart, even of an index that was built anew in its place."""
    return manifest.generation, check_of({"files": sorted(manifest.files)})


@dataclass
class Loaded:
    """A slice of a generation."""

    manifest: Manifest
    snapshot: Snapshot  # all of it, mapped
    parts: Sequence[SlicedPart]
    bounds: Ids
    filters: OrderedDict[str, tuple[Allowed, ...]] = field(default_factory=OrderedDict)


class Shard:
    """Some lists of one directory; which, whoever asks first says."""

    def __init__(self, directory: str, number: int, threads: int) -> None:
        self.store = Store(Path(directory))
        self.number, self.threads = number, threads
        self.loaded: dict[Key, Loaded] = {}
        # Batches one after the other: all at once they would be done at once, and whoever asked for them would
        # send the next ones at once, with nothing to do here meanwhile.
        self.batches = threading.Lock()

    def newest(self) -> Manifest:
        """What is on disk."""
        return read_manifest(self.store.directory)

    def load(self, manifest: Manifest | None, bounds: Ids | int) -> Description:
        """Hold a generation, the newest if none is named; `bounds` cut it, or so many shards."""
        if manifest is None:
            manifest, snapshot = self.store.load()
        else:
            known = self.loaded.get(key_of(manifest))
            if known is not None:
                return self._described(known)
            try:
                snapshot = self.store.snapshot_of(manifest)
            except FileNotFoundError as error:
                raise GenerationGoneError(
                    f"{error.filename} is gone, and with it {key_of(manifest)}"
                ) from error
        if isinstance(bounds, int):
            bounds = bounds_of(snapshot, bounds)
        lists = slice(int(bounds[self.number]), int(bounds[self.number + 1]))
        loaded = Loaded(manifest, snapshot, sliced(snapshot, lists), bounds)
        self.loaded[key_of(manifest)] = loaded
        return self._described(loaded)

    def _described(self, loaded: Loaded) -> Description:
        snapshot = loaded.snapshot
        counts = tuple(part.count for part in snapshot.parts)
        key = key_of(loaded.manifest)
        return Description(key, loaded.manifest, loaded.bounds, snapshot.trained, snapshot.recall, counts)

    def release(self, key: Key) -> None:
        """Let a generation go."""
        self.loaded.pop(key, None)

    def allowed(self, key: Key, wanted: Filter) -> tuple[int, ...]:
        """How many rows of every part a filter leaves here."""
        return tuple(some.count for some in self._allowed(self._held(key), wanted))

    def candidates(self, key: Key, request: ShardRequest, *pieces: Float32Array) -> Any:
        """For every part, what searches of the whole may judge: Candidates, as the wire has them."""
        held, queries = self._held(key), from_pieces(pieces)
        allowed = self._allowed(held, request.wanted)
        with self._turn(len(queries)):
            found = [
                part.candidates(queries, request.k, request.probes, rerank, some, self.threads)
                for part, rerank, some in zip(held.parts, request.reranks, allowed, strict=True)
            ]
        return cut(found, request.pieces)

    def answers(self, key: Key, request: ShardRequest, *pieces: Float32Array) -> Any:
        """The best of all parts, scores and ids; right for the whole where this shard is all of it."""
        held, queries = self._held(key), from_pieces(pieces)
        k, probes, allowed = request.k, request.probes, self._allowed(held, request.wanted)
        found = []
        with self._turn(len(queries)):
            for part, rerank, some in zip(held.parts, request.reranks, allowed, strict=True):
                if some.count:
                    own_k = min(k, some.count)
                    scores, rows = part.segment.search(
                        queries, k=own_k, probes=probes, rerank=rerank, allowed=some, threads=self.threads
                    )
                    there = rows >= 0
                    if part.segment.guard is not None:
                        part.segment.guard.judged(rows[there])
                    found.append((scores, np.where(there, part.ids[np.maximum(rows, 0)], -1)))
        return cut(best_of(found, len(queries), k), request.pieces)

    def words(self, key: Key, numbers: Ids) -> NDArray[np.object_]:
        """Words of numbers."""
        return self._held(key).snapshot.words(numbers)

    def vectors(self, key: Key, ids: Any) -> Float32Array:
        """As Index.reconstruct."""
        return vectors_of(self._held(key).snapshot, ids)

    def attributes(self, key: Key, ids: Any) -> Any:
        """As Index.get."""
        return attributes_of(self._held(key).snapshot, ids)

    def contains(self, key: Key, some_id: Any) -> bool:
        """As `in` of Index."""
        held = self._held(key)
        if not is_id(some_id, held.manifest.kind):
            return False
        return any((rows >= 0).any() for rows in held.snapshot.find([some_id]))

    def statistics(self, key: Key) -> dict[str, Any]:
        """As Index.stats, of the whole directory."""
        return statistics(self._held(key).snapshot)

    def measure(self, key: Key, queries: Any, truth: Any, seed: int) -> RecallCurve:
        """What searches of the whole directory find."""
        return measure_index(self._held(key).snapshot, queries, truth, seed, self.threads)

    def _turn(self, queries: int) -> AbstractContextManager[Any]:
        """That of a call with so many queries."""
        return nullcontext() if queries <= FEW_QUERIES else self.batches

    def _held(self, key: Key) -> Loaded:
        held = self.loaded.get(key)
        if held is None:
            raise GenerationGoneError(f"generation {key} is not held")
        return held

    def _allowed(self, held: Loaded, wanted: Filter | None) -> tuple[Allowed, ...]:
        """What may be found of every part."""
        if wanted is None:
            return tuple(part.everything for part in held.parts)
        known = held.filters.get(wanted.key)
        if known is None:
            only, exclude = (as_bitmap(ids) for ids in ray.get(wanted.content[0]))
            where, limits, snapshot = wanted.where, wanted.limits, held.snapshot
            condition = None if where is None else lambda rows: snapshot.matching(where, rows, limits)
            known = allowed_rows(held.parts, only, exclude, condition)
            held.filters[wanted.key] = known
            if len(held.filters) > MOST_FILTERS:
                held.filters.popitem(last=False)
        return known
