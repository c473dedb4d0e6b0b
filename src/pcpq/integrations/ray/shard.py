"""The actor of a shard, which holds its slice of one or two generations and searches it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray
from numpy.typing import NDArray

from pcpq.integrations.ray.slices import SlicedPart, bounds_of, sliced
from pcpq.integrations.ray.wire import cut, from_pieces
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import is_id
from pcpq.ivf.probing import Probing
from pcpq.search.exact import search_exactly
from pcpq.search.filters import allowed_rows
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

# Calls with at most this number of queries do not wait for other batches.
FEW_QUERIES = 64
# Number of filters whose allowed rows a shard caches.
MOST_FILTERS = 16

Key = tuple[int, int]


class GenerationGoneError(Exception):
    """Raised if a generation is not, or no longer, loaded in a shard."""


class Filter(NamedTuple):
    """A filter of ids and attributes, evaluated once by every shard."""

    key: str
    content: Any  # a list with one reference to (filter, exclude), so that Ray does not fetch it with each call
    where: str | None
    limits: WhereLimits | None = None


class ShardRequest(NamedTuple):
    """Parameters of a search of a shard."""

    k: int
    probing: Probing
    reranks: Sequence[int]  # candidates to rerank, per part
    wanted: Filter | None
    pieces: int  # number of pieces of the result
    exact: bool = False


class Description(NamedTuple):
    """Description of a generation, as searches need it."""

    key: Key
    manifest: Manifest
    bounds: Ids
    trained: Trained
    recall: RecallCurve | None
    counts: tuple[int, ...]  # rows without tombstones, per part


def key_of(manifest: Manifest) -> Key:
    """Return a key that is different for every generation, also if an index is replaced by a new build."""
    return manifest.generation, check_of({"files": sorted(manifest.files)})


@dataclass
class Loaded:
    """A loaded slice of a generation."""

    manifest: Manifest
    snapshot: Snapshot  # of the whole index, memory-mapped
    parts: Sequence[SlicedPart]
    bounds: Ids
    filters: OrderedDict[str, tuple[Allowed, ...]] = field(default_factory=OrderedDict)


class Shard:
    """Actor with a range of lists of one directory, which the first call of `load` sets."""

    def __init__(self, directory: str, number: int, threads: int) -> None:
        self.store = Store(Path(directory))
        self.number, self.threads = number, threads
        self.loaded: dict[Key, Loaded] = {}
        # Batches are searched one after the other. In parallel, all would end at the same time, and the shard
        # would be idle until the next ones arrive.
        self.batches = threading.Lock()

    def newest(self) -> Manifest:
        """Return the newest manifest on disk."""
        return read_manifest(self.store.directory)

    def load(self, manifest: Manifest | None, bounds: Ids | int) -> Description:
        """Load a generation; manifest None: the newest. `bounds` are bounds of lists, or a number of shards."""
        snapshot = None
        if manifest is None:
            manifest, snapshot = self.store.load()
        known = self.loaded.get(key_of(manifest))
        if known is not None:  # others search it with the bounds that it has
            return self._described(known)
        if snapshot is None:
            try:
                snapshot = self.store.snapshot_of(manifest)
            except FileNotFoundError as error:
                raise GenerationGoneError(
                    f"{error.filename} is gone, and with it generation {key_of(manifest)}"
                ) from error
        if isinstance(bounds, int):
            bounds = bounds_of(snapshot, bounds)
        lists = slice(int(bounds[self.number]), int(bounds[self.number + 1]))
        before = [part for one in list(self.loaded.values()) for part in one.parts]
        loaded = Loaded(manifest, snapshot, sliced(snapshot, lists, before), bounds)
        self.loaded[key_of(manifest)] = loaded
        return self._described(loaded)

    def _described(self, loaded: Loaded) -> Description:
        snapshot = loaded.snapshot
        counts = tuple(part.count for part in snapshot.parts)
        key = key_of(loaded.manifest)
        return Description(
            key=key,
            manifest=loaded.manifest,
            bounds=loaded.bounds,
            trained=snapshot.trained,
            recall=snapshot.recall,
            counts=counts,
        )

    def release(self, key: Key) -> None:
        """Unload a generation."""
        self.loaded.pop(key, None)

    def allowed(self, key: Key, wanted: Filter) -> tuple[int, ...]:
        """Return the number of rows of this shard that a filter allows, for every part."""
        return tuple(some.count for some in self._allowed(self._held(key), wanted))

    def candidates(self, key: Key, request: ShardRequest, *pieces: Float32Array) -> Any:
        """Return the Candidates of every part, in pieces."""
        held, queries = self._held(key), from_pieces(pieces)
        allowed = self._allowed(held, request.wanted)
        with self._batch_lock(len(queries)):
            found = [
                part.candidates(queries, request.k, request.probing, rerank, some, self.threads)
                for part, rerank, some in zip(held.parts, request.reranks, allowed, strict=True)
            ]
        return cut(found, request.pieces)

    def answers(self, key: Key, request: ShardRequest, *pieces: Float32Array) -> Any:
        """Return the best scores and ids of all parts, in pieces.

        For a directory with a single shard, and for exact searches.
        """
        held, queries = self._held(key), from_pieces(pieces)
        k, probing, allowed = request.k, request.probing, self._allowed(held, request.wanted)
        found = []
        with self._batch_lock(len(queries)):
            for part, rerank, some in zip(held.parts, request.reranks, allowed, strict=True):
                if some.count == 0:
                    continue
                own: dict[str, Any] = {"allowed": some, "threads": self.threads}
                if request.exact:
                    search, most = partial(search_exactly, part.segment, **own), some.count
                else:
                    search, most = partial(part.segment.search, probing=probing, rerank=rerank, **own), rerank
                found.append(part.best(search, queries, min(k, most), most))
        return cut(best_of(found, len(queries), k), request.pieces)

    def strings(self, key: Key, numbers: Ids) -> NDArray[np.object_]:
        """Return the string ids of internal numbers."""
        return self._held(key).snapshot.strings(numbers)

    def vectors(self, key: Key, ids: Any) -> Float32Array:
        """Return the vectors of ids, as Index.reconstruct does."""
        return vectors_of(self._held(key).snapshot, ids)

    def attributes(self, key: Key, ids: Any) -> Any:
        """Return the attributes of ids, as Index.get does."""
        return attributes_of(self._held(key).snapshot, ids)

    def contains(self, key: Key, some_id: Any) -> bool:
        """Return whether an id is in the directory."""
        held = self._held(key)
        if not is_id(some_id, held.manifest.kind):
            return False
        return any((rows >= 0).any() for rows in held.snapshot.find([some_id]))

    def statistics(self, key: Key) -> dict[str, Any]:
        """Return the statistics of Index.stats for the whole directory."""
        return statistics(self._held(key).snapshot)

    def measure(self, key: Key, queries: Any, truth: Any, seed: int) -> RecallCurve:
        """Measure the recall of searches of the whole directory; return the recall curve."""
        return measure_index(self._held(key).snapshot, queries, truth, seed, self.threads)

    def _batch_lock(self, queries: int) -> AbstractContextManager[Any]:
        """Return the lock of batches; for few queries, a context that does not wait."""
        return nullcontext() if queries <= FEW_QUERIES else self.batches

    def _held(self, key: Key) -> Loaded:
        held = self.loaded.get(key)
        if held is None:
            raise GenerationGoneError(f"generation {key} is not loaded")
        return held

    def _allowed(self, held: Loaded, wanted: Filter | None) -> tuple[Allowed, ...]:
        """Return the rows that a filter allows, for every part, from the cache if possible."""
        if wanted is None:
            return tuple(part.everything for part in held.parts)
        known = held.filters.get(wanted.key)
        if known is None:
            only, exclude = ray.get(wanted.content[0])
            where, limits, snapshot = wanted.where, wanted.limits, held.snapshot
            condition = None if where is None else lambda rows: snapshot.matching(where, rows, limits)
            known = allowed_rows(held.parts, only, exclude, condition)
            held.filters[wanted.key] = known
            if len(held.filters) > MOST_FILTERS:
                held.filters.popitem(last=False)
        return known
