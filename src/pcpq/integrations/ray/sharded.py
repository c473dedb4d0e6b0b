"""ShardedIndex: one index, or several indexes with the same training, on many nodes."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, overload
from uuid import uuid4

import numpy as np
import ray
from numpy.typing import NDArray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pcpq.integrations.ray.replicas import Question, Replicas
from pcpq.integrations.ray.shard import (
    MOST_FILTERS,
    Description,
    Filter,
    GenerationGoneError,
    Shard,
    key_of,
)
from pcpq.integrations.ray.view import Directory, Patience, View
from pcpq.integrations.ray.writing import Writers
from pcpq.io.arrays import Float32Array
from pcpq.search.execute import search
from pcpq.search.filters import as_bitmap
from pcpq.search.range import range_bound, search_range
from pcpq.search.recall_curve import FEW
from pcpq.search.request import SearchRequest
from pcpq.search.result import Result
from pcpq.search.where import WhereLimits
from pcpq.util.threads import available_threads
from pcpq.util.validation import whole_number

logger = logging.getLogger(__name__)
# Attempts per search, because a generation can be deleted during it.
MOST_TRIES = 10
# Concurrent calls per actor, so that a long call does not block others.
CONCURRENCY = 8

Found = TypeVar("Found")


class PartialResult(NamedTuple):
    """The result of the shards that responded. `missing` names the shards that did not."""

    scores: Float32Array
    ids: NDArray[Any]
    missing: tuple[str, ...]


class ShardedIndex:
    """An index whose lists are distributed over Ray actors, with the results of `pcpq.open`.

    Any number of threads can search. The object can be sent to other processes, which use the same actors.
    """

    def __init__(self, directories: Sequence[Directory], patience: Patience, options: dict[str, Any]) -> None:
        self._directories, self._patience, self._options = list(directories), patience, options
        self._writers = Writers(self._directories, options)
        self._start()
        self._owner = True

    def _start(self) -> None:
        self._refreshing = threading.Lock()
        self._filters: dict[int, tuple[Any, Filter]] = {}
        self._view: View | None = None
        self._view = self._newest()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        shards: int | None = None,
        replicas: int = 1,
        *,
        threads: int = 1,
        num_cpus: float = 1.0,
        patience: float = 30.0,
        options: dict[str, Any] | None = None,
    ) -> ShardedIndex:
        """Start actors on the nodes of the cluster, each of which opens its lists.

        Parameters
        ----------
        path : the directory of an index, which all nodes see; or several directories that were built with
            `like`, which are searched as one index
        shards : number of shards per directory, each a range of lists; None: one per node, or one per directory
            if there are several
        replicas : number of actors per shard, on different nodes if possible
        threads, num_cpus : threads and CPUs of each actor
        patience : seconds during which a shard that does not respond is called again, before it is an error
        options : options of the Ray actors, such as resources
        """
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0)]
        if not paths or not nodes:
            raise ValueError(f"{len(paths)} directories on {len(nodes)} nodes: expected at least one of each")
        whole_number("replicas", replicas, 1, 1 << 16)
        shards = (len(nodes) if len(paths) == 1 else 1) if shards is None else shards
        whole_number("shards", shards, 1, 1 << 16)
        available_threads(threads)
        given = {"num_cpus": num_cpus, "max_concurrency": CONCURRENCY} | (options or {})
        refuse_too_few_cpus(len(paths) * shards * replicas, float(given["num_cpus"] or 0))
        remote = ray.remote(Shard)
        directories, next_node = [], 0
        for one in paths:
            directory, shard_replicas = os.path.abspath(os.fspath(one)), []
            for number in range(shards):
                actors = []
                for replica in range(replicas):
                    # Soft: if a node is lost, its actors are restarted on another one.
                    node = NodeAffinitySchedulingStrategy(nodes[(next_node + replica) % len(nodes)], soft=True)
                    actor = remote.options(max_restarts=-1, scheduling_strategy=node, **given)
                    actors.append(actor.remote(directory, number, threads))
                shard_replicas.append(Replicas(f"{directory}, shard {number}", actors))
                next_node += 1
            directories.append(Directory(directory, shard_replicas))
        try:
            return cls(directories, Patience(patience), {"num_cpus": 0})
        except BaseException:
            for one_directory in directories:
                stop(one_directory)
            raise

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which uses the same actors with a new view."""
        return {"directories": self._directories, "patience": self._patience, "options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a sent index. Closing it does not stop the actors."""
        self._directories, self._patience, self._options = (
            state["directories"],
            state["patience"],
            state["options"],
        )
        self._writers = Writers(self._directories, self._options)
        self._start()
        self._owner = False

    @property
    def metric(self) -> str:
        """The metric: "dot", "cosine" or "euclidean"."""
        return self._fitted().trained.metric

    @property
    def generation(self) -> tuple[int, ...]:
        """The generation of each directory that searches see now."""
        return tuple(key[0] for key in self._fitted().keys)

    @overload
    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        target_recall: float | None = None,
        probes: int | None = None,
        rerank: int | None = None,
        exact: bool = False,
        filter: Any = None,
        exclude: Any = None,
        where: str | None = None,
        where_limits: WhereLimits | None = None,
        partial: Literal[False] = False,
    ) -> Result: ...

    @overload
    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        target_recall: float | None = None,
        probes: int | None = None,
        rerank: int | None = None,
        exact: bool = False,
        filter: Any = None,
        exclude: Any = None,
        where: str | None = None,
        where_limits: WhereLimits | None = None,
        partial: bool,
    ) -> Result | PartialResult: ...

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        target_recall: float | None = None,
        probes: int | None = None,
        rerank: int | None = None,
        exact: bool = False,
        filter: Any = None,
        exclude: Any = None,
        where: str | None = None,
        where_limits: WhereLimits | None = None,
        partial: bool = False,
    ) -> Result | PartialResult:
        """Find the k best vectors for each query. Parameters and results are those of Index.search.

        Every shard evaluates the condition (`where`) on its own rows, within `where_limits`. If a shard is
        lost, a ShardLostError is raised; with `partial`, a PartialResult from the other shards is returned.
        """
        request = SearchRequest(
            k=k,
            target_recall=target_recall,
            probes=probes,
            rerank=rerank,
            filter=as_bitmap(filter),
            exclude=as_bitmap(exclude),
            where=where,
            where_limits=where_limits,
            exact=exact,
        )
        request.check()
        wanted = self._filter(request)

        def search_view(view: View) -> Result:
            if target_recall is not None and view.recall is None and len(view) > FEW:
                view.measure()
            found = search(view.filtered(wanted, partial), queries, request)
            return found._replace(ids=view.strings(found.ids))

        return self._with_missing(search_view, partial)

    def search_range(
        self,
        queries: Any,
        *,
        min_score: float | None = None,
        max_distance: float | None = None,
        probes: int | None = None,
        filter: Any = None,
        exclude: Any = None,
        where: str | None = None,
        where_limits: WhereLimits | None = None,
    ) -> tuple[NDArray[np.int64], Float32Array, NDArray[Any]]:
        """Find all vectors in a range. Parameters and results are those of Index.search_range."""
        bound = range_bound(self.metric, min_score, max_distance)
        only, refused = as_bitmap(filter), as_bitmap(exclude)
        request = SearchRequest(
            k=1, probes=probes, filter=only, exclude=refused, where=where, where_limits=where_limits
        )
        request.check()
        wanted = self._filter(request)

        def search_view(view: View) -> tuple[NDArray[np.int64], Float32Array, NDArray[Any]]:
            limits, scores, numbers = search_range(view.filtered(wanted, False), queries, request, bound)
            return limits, scores, view.strings(numbers)

        return self._on_one_generation(search_view)

    def reconstruct(self, ids: Any) -> Float32Array:
        """Return the (n, d) float32 vectors of n ids. Only for an index in one directory."""
        found: Float32Array = self._ask_directory("vectors", ids)
        return found

    def get(self, ids: Any) -> Any:
        """Return the attributes of ids as an Arrow table. Only for an index in one directory."""
        return self._ask_directory("attributes", ids)

    def stats(self) -> list[dict[str, Any]]:
        """Return the statistics of Index.stats for each directory."""
        return self._on_one_generation(
            lambda view: [view.ask_one(number, "statistics") for number in range(len(self._directories))]
        )

    def __len__(self) -> int:
        return len(self._fitted())

    def __contains__(self, some_id: Any) -> bool:
        return self._on_one_generation(
            lambda view: any(
                view.ask_one(number, "contains", some_id) for number in range(len(self._directories))
            )
        )

    def add(self, vectors: Any, ids: Any = None, *, attributes: Any = None) -> NDArray[Any]:
        """Add vectors with new ids. They are visible and stored after `commit`."""
        return self._writers.add(vectors, ids, attributes)

    def upsert(self, vectors: Any, ids: Any, *, attributes: Any = None) -> NDArray[Any]:
        """Replace vectors with the same ids and add the others. Visible and stored after `commit`."""
        return self._writers.upsert(vectors, ids, attributes)

    def remove(self, ids: Any) -> int:
        """Delete vectors by their ids. They are gone after `commit`."""
        return self._writers.remove(ids)

    def commit(self) -> None:
        """Store changes and make them visible to searches. Each directory has its own commit."""
        self._writers.commit()
        self.refresh()

    def refresh(self) -> bool:
        """Switch to the newest commit on disk while searches continue; returns whether there was one."""
        with self._refreshing:
            before = self._fitted()
            after = self._newest()
            if after.keys == before.keys:
                return False
            if before.recall is not None and before.recall.same_as(after.recall):  # its check goes on
                after.recall = before.recall
            self._view = after
        old = [key for key in before.keys if key not in after.keys]
        before.retire(lambda: self._release(before, old))
        return True

    def close(self) -> None:
        """Stop the actors that this object started. Changes that were not committed are lost."""
        self._writers.close()
        if self._view is not None and self._owner:
            for directory in self._directories:
                stop(directory)
        self._view = None

    def __enter__(self) -> ShardedIndex:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        shards = sum(len(directory.shards) for directory in self._directories)
        count = "closed" if self._view is None else f"{len(self)} vectors"
        return f"ShardedIndex({', '.join(one.path for one in self._directories)}: {shards} shards, {count})"

    def _fitted(self) -> View:
        view = self._view
        if view is None:
            raise ValueError("this ShardedIndex is closed; open it again")
        return view

    def _on_one_generation(self, search: Callable[[View], Found]) -> Found:
        """Search one generation; if it was deleted before a shard loaded it, search the newest one."""
        for number in range(MOST_TRIES):
            with self._fitted().used() as view:
                try:
                    return search(view)
                except GenerationGoneError:
                    if number == MOST_TRIES - 1:
                        raise
            self.refresh()
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _with_missing(self, search: Callable[[View], Result], partial: bool) -> Result | PartialResult:
        missing: set[str] = set()

        def search_once(view: View) -> Result:
            view.lost.clear()
            found = search(view)
            missing.update(view.lost)
            return found

        found = self._on_one_generation(search_once)
        if not partial:
            return found
        return PartialResult(scores=found.scores, ids=found.ids, missing=tuple(sorted(missing)))

    def _ask_directory(self, method: str, *arguments: Any) -> Any:
        if len(self._directories) > 1:
            raise ValueError(f"{len(self._directories)} directories; open one of them to get its {method}")
        return self._on_one_generation(lambda view: view.ask_one(0, method, *arguments))

    def _filter(self, request: SearchRequest) -> Filter | None:
        """Return the filter that is sent to shards; a Bitmap is sent once and then reused."""
        only, refused = request.filter, request.exclude
        if not request.filtered:
            return None
        kept = only is not None and refused is None and request.where is None
        if kept and id(only) in self._filters and self._filters[id(only)][0] is only:
            return self._filters[id(only)][1]
        made = Filter(uuid4().hex, [ray.put((only, refused))], request.where, request.where_limits)
        if kept:
            self._filters[id(only)] = (only, made)
            if len(self._filters) > MOST_FILTERS:
                self._filters.pop(next(iter(self._filters)))
        return made

    def _newest(self) -> View:
        """Load the newest generation of every directory in all shards that respond; return a view of it."""
        for _ in range(MOST_TRIES):
            try:
                found = [
                    self._load_newest(directory_number) for directory_number in range(len(self._directories))
                ]
                return View(self._directories, found, self._patience)
            except GenerationGoneError:
                time.sleep(0.05)
        raise GenerationGoneError("generations are deleted faster than they are opened")

    def _load_newest(self, directory_number: int) -> Description:
        """Load the newest generation of a directory in one shard, which divides the lists, then in all."""
        directory, view = self._directories[directory_number], self._view
        bounds: Any = len(directory.shards)
        manifest = None
        if view is not None:
            manifest = self._ask_any(directory, lambda actor: actor.newest.remote())
            before = view.descriptions[directory_number]
            if key_of(manifest) == before.key:
                return before
            if manifest.trained == before.manifest.trained:  # shards keep their lists
                bounds = before.bounds
        first: Description = self._ask_any(directory, lambda actor: actor.load.remote(manifest, bounds))
        actors = [actor for replicas in directory.shards for actor in replicas.actors]
        # Shards that do not respond now load the generation at their first search.
        ray.wait(
            [actor.load.remote(first.manifest, first.bounds) for actor in actors],
            num_returns=len(actors),
            timeout=self._patience.all,
        )
        return first

    def _ask_any(self, directory: Directory, ask: Callable[[Any], Any]) -> Any:
        replicas = Replicas(directory.path, [actor for one in directory.shards for actor in one.actors])
        return Question(replicas, ask, ask).answer(self._patience.all, self._patience.one)

    def _release(self, view: View, keys: Sequence[Any]) -> None:
        for directory, key in zip(view.directories, view.keys, strict=True):
            if key in keys:
                for replicas in directory.shards:
                    for actor in replicas.actors:
                        actor.release.remote(key)


def refuse_too_few_cpus(actors: int, num_cpus: float) -> None:
    """Raise a ValueError if the nodes have too few CPUs for all actors; log it if others use them now."""
    if num_cpus <= 0:
        return
    cpus = [node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]]
    wanted = (
        f"{actors} actors (shards times replicas) want {num_cpus:g} CPUs each, {actors * num_cpus:g} in all"
    )
    if sum(int(count // num_cpus) for count in cpus) < actors:
        there = f"the cluster has {sum(cpus):g} on {len(cpus)} nodes"
        raise ValueError(f"{wanted}; {there}: open fewer shards or replicas, or with a smaller num_cpus")
    free = ray.available_resources().get("CPU", 0.0)
    if free < actors * num_cpus:
        logger.warning("%s; %g of %g are free now, so actors may have to wait", wanted, free, sum(cpus))


def stop(directory: Directory) -> None:
    """Stop all actors of a directory."""
    for replicas in directory.shards:
        for actor in replicas.actors:
            ray.kill(actor)
