"""The index: partition, codes, scan, re-rank. It composes the modules before it and has no mathematics."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.config import IndexConfig
from pcpq.errors import NotFittedError
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import is_id
from pcpq.io.streams import Stream
from pcpq.quantizers import Quantizer
from pcpq.search.execute import search
from pcpq.search.explain import explain
from pcpq.search.filters import as_bitmap
from pcpq.search.range import range_bound, search_range
from pcpq.search.recall_curve import FEW, RecallCurve, check_target
from pcpq.search.reconstruct import attributes_of, vectors_of
from pcpq.search.request import SearchRequest
from pcpq.search.result import Result
from pcpq.search.snapshot import Snapshot
from pcpq.search.statistics import statistics
from pcpq.search.where import WhereLimits
from pcpq.segment.encoded_rows import RowsBuilder
from pcpq.segment.trained import Trained
from pcpq.segment.training import train, training_rows
from pcpq.store.backup import back_up
from pcpq.store.files import Maps
from pcpq.store.manifest import Manifest
from pcpq.store.refit import sample_of
from pcpq.store.state import State
from pcpq.store.store import Store
from pcpq.tuning.measure import measure_index
from pcpq.util.threads import available_threads

Progress = Callable[[int, int | None], None]


class Index:
    """Vectors in lists, as codes to scan and, if kept, in a precision to judge candidates by.

    Parameters
    ----------
    metric : "dot", "cosine" or "euclidean"
    quantizer : of the residuals; scanned fastest with at most 16 centers and 16 scales a section. None: PQ of
        section size 2 where vectors are kept, QPCPQ with 16 scales where codes are all there is
    n_lists : None: twice the square root of the number of vectors
    rotation : turn vectors before they are cut into sections: None, "random", or "learned" from their codes
    codebooks : one quantizer, "shared" by all lists, or one of its own for each, "per_list"
    keep : vectors kept for re-ranking: None, "int8", "int16", "float16" or "float32"
    seed : of every random choice
    """

    def __init__(
        self,
        *,
        metric: str,
        quantizer: Quantizer | None = None,
        n_lists: int | None = None,
        rotation: str | None = None,
        codebooks: str = "shared",
        keep: str | None = "int16",
        seed: int = 0,
    ) -> None:
        config = IndexConfig(
            metric=metric,
            quantizer=quantizer,
            n_lists=n_lists,
            rotation=rotation,
            codebooks=codebooks,
            keep=keep,
            seed=seed,
        )
        self._begin(config)

    @classmethod
    def from_config(cls, config: IndexConfig) -> Index:
        """An index with these settings, not fitted."""
        index = cls.__new__(cls)
        index._begin(config)
        return index

    def _begin(self, config: IndexConfig) -> None:
        self._config = config
        self._state: State | None = None
        self._store: Store | None = None
        self._maps: Maps | None = None  # of the store, or of that of the index that this one is a copy of
        self._committed: tuple[Manifest, Snapshot] | None = None  # the snapshot keeps its files

    @property
    def config(self) -> IndexConfig:
        """The settings of the index."""
        return self._config

    @property
    def metric(self) -> str:
        """The metric: "dot", "cosine" or "euclidean"."""
        return self._config.metric

    @property
    def quantizer(self) -> Quantizer | None:
        """The quantizer of the residuals, as it was given."""
        return self._config.quantizer

    @property
    def n_lists(self) -> int | None:
        """The number of lists, as it was given."""
        return self._config.n_lists

    @property
    def rotation(self) -> str | None:
        """The kind of rotation: None, "random" or "learned"."""
        return self._config.rotation

    @property
    def codebooks(self) -> str:
        """The kind of codebooks: "shared" or "per_list"."""
        return self._config.codebooks

    @property
    def keep(self) -> str | None:
        """The precision of the vectors kept for re-ranking; None: none are kept."""
        return self._config.keep

    @property
    def seed(self) -> int:
        """The seed of every random choice."""
        return self._config.seed

    @property
    def chosen(self) -> str | None:
        """Why `build` chose the quantizer and `keep` for a number of bytes per vector."""
        return self._config.chosen

    def fit(self, vectors: Any, *, expected: int | None = None, threads: int | None = None) -> Index:
        """Learn lists and codes from a sample of the vectors; `expected` is how many will be added."""
        self._state, _ = State.fit(self._config, Stream.of(vectors), expected, threads)
        return self

    def add(
        self,
        vectors: Any,
        ids: Any = None,
        *,
        attributes: Any = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> NDArray[Any]:
        """Add vectors, or an iterable of batches.

        Parameters
        ----------
        vectors : (n, d) floats, or batches of them
        ids : (n,) int or str, all new, and of one kind in an index; None: counted up from 0
        attributes : an Arrow table, a data frame or a dict of columns, a row a vector
        threads : None: every CPU of the process
        progress : called with how many are done and how many there are, None if nobody knows

        Returns their ids.
        """
        return self._insert(vectors, ids, attributes, False, threads, progress)

    def upsert(
        self,
        vectors: Any,
        ids: Any,
        *,
        attributes: Any = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> NDArray[Any]:
        """Add vectors in the place of those that have the same ids; a search finds the old ones or the new."""
        return self._insert(vectors, ids, attributes, True, threads, progress)

    def get(self, ids: Any) -> Any:
        """The attributes of ids, an Arrow table with a row for each."""
        return attributes_of(self._fitted().snapshot, ids)

    def remove(self, ids: Any) -> int:
        """Remove ids; returns how many of them were there."""
        self._refuse_readers()
        return self._fitted().remove(ids)

    def compact(self) -> None:
        """Make everything one part and forget what was removed, while searches and additions go on."""
        self._refuse_readers()
        self._fitted().compact()

    def refit(self, *, threads: int | None = None) -> Future[None]:
        """Learn lists and codes anew from the vectors there are now, in the background.

        Searches, additions and removals go on; `refit().result()` waits for the end. `tune` by queries again.
        """
        self._refuse_readers()
        if self.keep is None:
            raise ValueError("an index that keeps no vectors has nothing to learn from; build it anew")

        def train_again(snapshot: Snapshot) -> Trained:
            generator, n = np.random.default_rng(self.seed), len(snapshot)
            sample = sample_of(snapshot, training_rows(self._config, n), generator)
            return train(self._config, sample, n, generator, threads)

        def measure_again(snapshot: Snapshot) -> RecallCurve | None:
            return measure_index(snapshot, None, None, self.seed, threads) if len(snapshot) > FEW else None

        return self._fitted().refit(train_again, measure_again, threads)

    def tune(self, queries: Any = None, *, truth: Any = None, threads: int | None = None) -> RecallCurve:
        """Measure what searches find, so that target_recall holds; `save` and `commit` keep it.

        Parameters
        ----------
        queries : (n, d) floats, of the kind that will be asked; None: they are like the vectors of the index
        truth : (n, k) ids of the exact answers, best first; None: found among the vectors kept

        Returns a curve whose `choose(k, target)` tells probes, rerank and the recall to expect.
        """
        state = self._fitted()
        snapshot = state.snapshot
        if len(snapshot) <= FEW:
            raise ValueError(f"{len(snapshot)} vectors are searched exactly; there is nothing to tune")
        return state.know(measure_index(snapshot, queries, truth, self.seed, threads), snapshot.trained)

    def _measured(self, request: SearchRequest) -> State:
        """The state, with recall measured if this is the first request for a recall."""
        state = self._fitted()
        if request.target_recall is not None:
            check_target(request.target_recall, request.probes)
            if len(state.snapshot) > FEW:
                state.measure_once(
                    lambda snapshot: measure_index(snapshot, None, None, self.seed, request.threads)
                )
        return state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a directory; an index that is there already is replaced, whole or not at all."""
        state = self._fitted()
        store = Store.create(Path(path).absolute())
        with store.telling_what_is_there():
            try:
                state.store(store, self._config, adopt=False)
                store.tidy()
            finally:
                store.close()

    def commit(self) -> None:
        """Make all that was done since the last commit last; readers see it when they open or refresh."""
        store = self._writable_store()
        with store.telling_what_is_there():
            stored = self._fitted().store(store, self._config, adopt=True)
            if store.manifest is not None:
                self._committed = store.manifest, stored
            del stored
            store.tidy()  # now that what was committed before is not held any more

    def backup(self, path: str | os.PathLike[str], *, copy: bool = False) -> None:
        """Make another directory an index of what was last committed, while searches and changes go on.

        Its files are hard links where the file system has them, which takes no time and no space; copies
        elsewhere, and where `copy` asks for them.
        """
        self._fitted()
        committed = self._committed
        if self._store is None or committed is None:
            raise ValueError("this index is in memory only: save it")
        back_up(self._store.directory, committed[0], Path(path).absolute(), copy)

    def refresh(self) -> bool:
        """Go on to the newest generation on disk; whether there was one."""
        store = self._store
        if store is None or store.lock is not None:
            raise ValueError("only an index that was opened for reading has anything to refresh from")
        with self._fitted().writing:
            manifest, snapshot = store.load()
            if self._committed is not None and manifest == self._committed[0]:
                return False
            self._show(store, manifest, snapshot)
        return True

    def verify(self) -> None:
        """Read all files again and compare them with their checksums; a FormatError names what differs."""
        self._fitted()
        committed = self._committed  # held until the end: a commit or refresh may replace it meanwhile
        if self._store is not None and committed is not None:
            self._store.verify(committed[0])

    def close(self) -> None:
        """Let others write, after a commit that is under way; what was not committed is gone."""
        if self._store is not None:
            self._store.close()
            self._state = self._committed = None

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        target_recall: float | None = None,
        probes: int | None = None,
        rerank: int | None = None,
        filter: Any = None,
        exclude: Any = None,
        where: str | None = None,
        where_limits: WhereLimits | None = None,
        threads: int | None = None,
    ) -> Result:
        """The k best vectors for each query.

        Parameters
        ----------
        queries : (n, d) or (d,) floats
        k : results a query; where there are fewer vectors, the rest is filled up with -1, up to 2 GiB in all
        target_recall : the share of the true k best to find, from which probes and rerank follow; None: 0.95
        probes : lists to scan, instead; where nothing was measured (see tune), a twentieth
        rerank : candidates to judge, at least k; where target_recall does not say, None is 100 or 10 k
        filter : ids that may be found, an array or a Bitmap; None: all
        exclude : ids that may not
        where : an SQL condition on attributes, as in "lang = 'en' AND year > 2020", which sees only rows that
            are there and that filter and exclude leave
        where_limits : seconds, memory and threads that the condition may take; None: pcpq.WhereLimits()
        threads : None: every CPU of the process, one for a single query
        """
        request = SearchRequest(
            k,
            target_recall,
            probes,
            rerank,
            as_bitmap(filter),
            as_bitmap(exclude),
            where,
            where_limits,
            threads,
        )
        state = self._measured(request)
        snapshot = state.snapshot  # once: a refresh may replace it by one with ids of another kind
        found = search(snapshot, queries, request)
        return Result(found.scores, as_given(state.kind, snapshot, found.ids))

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
        threads: int | None = None,
    ) -> tuple[NDArray[np.int64], Float32Array, NDArray[Any]]:
        """All vectors that score at least `min_score`, or lie within the squared `max_distance`.

        Returns
        -------
        limits : (n + 1,) int64; the results of query i are limits[i] to limits[i + 1]
        scores, ids : of all queries one after the other, each best first
        """
        bound = range_bound(self.metric, min_score, max_distance)
        only, refused = as_bitmap(filter), as_bitmap(exclude)
        request = SearchRequest(
            k=1,
            probes=probes,
            filter=only,
            exclude=refused,
            where=where,
            where_limits=where_limits,
            threads=threads,
        )
        state = self._fitted()
        snapshot = state.snapshot
        limits, scores, ids = search_range(snapshot, queries, request, bound)
        return limits, scores, as_given(state.kind, snapshot, ids)

    def explain(self, query: Any, k: int = 10, **options: Any) -> dict[str, Any]:
        """What a search for one query does: lists, rows and candidates, and the seconds of each stage.

        `options` are those of search.
        """
        for name in options:
            if name not in SearchRequest._fields:
                raise ValueError(f"explain has no option {name!r}")
        for name in ("filter", "exclude"):
            options[name] = as_bitmap(options.get(name))
        request = SearchRequest(k, **options)
        return explain(self._measured(request).snapshot, query, request)

    def reconstruct(self, ids: Any) -> Float32Array:
        """(n, d) the vectors of ids, as kept, or decoded where none are."""
        return vectors_of(self._fitted().snapshot, ids)

    def stats(self) -> dict[str, Any]:
        """Bytes a vector by part, how lists are filled, what was removed and how far vectors have moved."""
        return statistics(self._fitted().snapshot) | ({} if self.chosen is None else {"chosen": self.chosen})

    def __len__(self) -> int:
        return 0 if self._state is None else len(self._state.snapshot)

    def __contains__(self, some_id: Any) -> bool:
        state = self._state
        if state is None or not is_id(some_id, state.kind):
            return False
        return any((rows >= 0).any() for rows in state.snapshot.find([some_id]))

    def __repr__(self) -> str:
        return f"Index(metric={self.metric!r}, keep={self.keep!r}, vectors={len(self)})"

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies, which then go their own ways."""
        own = {"_state": copy(self._state), "_store": None, "_maps": None, "_committed": None}
        return vars(self) | own

    def __copy__(self) -> Index:
        """Shares what is mapped."""
        new = type(self).__new__(type(self))
        vars(new).update(self.__getstate__() | {"_maps": self._maps})
        return new

    def _fitted(self) -> State:
        if self._state is None and self._store is not None:
            raise ValueError(f"this index is closed; open {self._store.directory} again")
        if self._state is None:
            raise NotFittedError("this Index is not fitted: call fit first, or use pcpq.build")
        if self._maps is not None:
            self._maps.refuse_changed_sizes()
        return self._state

    def _insert(
        self,
        vectors: Any,
        ids: Any,
        attributes: Any,
        replacing: bool,
        threads: int | None,
        progress: Progress | None,
        look: Callable[[Float32Array, int], None] | None = None,
    ) -> NDArray[Any]:
        """Encode vectors batch by batch; they are found when all are done. `look` sees them and their place."""
        state, stream = self._fitted(), Stream.of(vectors)
        self._refuse_readers()
        with state.writing:
            trained, builder = state.snapshot.trained, RowsBuilder(stream.length)
            batches = stream.batches(trained.dimensions, available_threads(threads))
            for rows, spread in trained.all_rows(batches, threads, look):
                builder.append(rows, spread)
                if progress is not None:
                    progress(builder.count, stream.length)
            return state.insert(*builder.finish(), ids, attributes, replacing)

    def _refuse_readers(self) -> None:
        if self._store is not None and self._store.lock is None:
            raise ValueError(f"{self._store.directory} is open for reading only; open it with mode='a'")

    def _writable_store(self) -> Store:
        self._refuse_readers()
        if self._store is None:
            raise ValueError("this index is in memory only: save it, or open one with mode='a'")
        return self._store

    def _show(self, store: Store, manifest: Manifest, snapshot: Snapshot) -> None:
        """What a store holds, which may be another index than before."""
        self._config, self._store, self._maps = manifest.config, store, store.maps
        state = self._state or State(snapshot.trained)
        state.show(snapshot, manifest.kind, manifest.next_id)
        self._state, self._committed = state, (manifest, snapshot)


def index_of(config: IndexConfig, state: State) -> Index:
    """A fitted index."""
    index = Index.from_config(config)
    index._state = state
    return index


def opened_index(store: Store) -> Index:
    """The newest generation of a store."""
    manifest, snapshot = store.load()
    index = Index.from_config(manifest.config)
    index._show(store, manifest, snapshot)
    return index


def state_of(index: Index) -> State:
    """The state of a fitted index, for commands and integrations."""
    return index._fitted()


def generation_of(index: Index) -> int:
    """The generation on disk that a stored index goes on from."""
    committed = index._committed
    if committed is None:
        raise ValueError("this index is in memory only: it has no generation")
    return committed[0].generation


def as_given(kind: str | None, snapshot: Snapshot, ids: Ids) -> NDArray[Any]:
    """Numbers that a search found, or their words; `kind` is that of an index without vectors."""
    return snapshot.words(ids) if (snapshot.of_words if snapshot.parts else kind == "str") else ids
