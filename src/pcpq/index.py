"""Index, the class that users work with. It composes other modules and contains no mathematics."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pcpq.config import IndexConfig
from pcpq.errors import NotFittedError
from pcpq.io.arrays import Float32Array, Ids
from pcpq.io.ids import is_id
from pcpq.io.streams import Stream
from pcpq.quantizers import Quantizer
from pcpq.search.execute import check_recall, search
from pcpq.search.explain import explain
from pcpq.search.filters import Bitmap, as_bitmap
from pcpq.search.plan import known_plan
from pcpq.search.range import range_bound, search_range
from pcpq.search.recall_curve import FEW, RecallCurve
from pcpq.search.reconstruct import (
    attributes_of,
    batches_of,
    selected_attributes,
    selected_columns,
    vectors_of,
)
from pcpq.search.request import LARGEST_K, SearchRequest
from pcpq.search.result import Result
from pcpq.search.snapshot import Snapshot
from pcpq.search.statistics import bytes_without_attributes, statistics
from pcpq.search.where import WhereLimits
from pcpq.segment.trained import Trained
from pcpq.segment.training import choices_made, training_rows
from pcpq.store.backup import back_up
from pcpq.store.changes import Progress
from pcpq.store.files import Maps
from pcpq.store.manifest import Manifest
from pcpq.store.refit import sample_of
from pcpq.store.state import State
from pcpq.store.store import Store
from pcpq.tuning.choices import train_on
from pcpq.tuning.measure import measure_index
from pcpq.util.notebook import table
from pcpq.util.progress import reported
from pcpq.util.threads import available_threads
from pcpq.util.validation import whole_number

if TYPE_CHECKING:
    import pyarrow


class Index:
    """An inverted-file index: lists of codes, which are scanned, and of vectors, which rerank candidates.

    `pcpq.build` makes one from vectors, `pcpq.open` opens a stored one. `Index(...)` creates an empty index for
    `fit` and `add`. Any number of threads can search while others change the index.

    Parameters
    ----------
    metric : "dot" (inner product), "cosine" or "euclidean"
    quantizer : an unfitted quantizer for the residuals of the lists. Codes with at most 16 codewords and 16
        scales per section are scanned fastest. None: chosen as by `pcpq.build`
    n_lists : number of inverted lists; None: twice the square root of the number of vectors
    rotation : rotation of vectors before they are split into sections: None, "random", or "learned" from the
        codes
    codebooks : "shared": one codebook for all lists; "per_list": one for each list
    keep : precision of the vectors that are kept for reranking: "int8", "int16", "float16", "float32", or None
        to keep codes only
    lists_per_vector : 1, or 2: each vector has a second code, in another list that is near to it. A search then
        finds the same in fewer lists, above all among embeddings of text. Codes take twice the memory, and
        vectors must be kept. None: chosen as by `pcpq.build`
    code_dimensions : number of coordinates that lists and codes are made of: those of largest variance, along
        the principal axes. Candidates are reranked by whole vectors, which must be kept. None: chosen as by
        `pcpq.build`
    seed : seed of all random choices
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
        lists_per_vector: int | None = None,
        code_dimensions: int | None = None,
        seed: int = 0,
    ) -> None:
        config = IndexConfig(
            metric=metric,
            quantizer=quantizer,
            n_lists=n_lists,
            rotation=rotation,
            codebooks=codebooks,
            keep=keep,
            lists_per_vector=lists_per_vector,
            code_dimensions=code_dimensions,
            seed=seed,
        )
        self._begin(config)

    @classmethod
    def from_config(cls, config: IndexConfig) -> Index:
        """Return an unfitted index with these settings."""
        index = cls.__new__(cls)
        index._begin(config)
        return index

    def _begin(self, config: IndexConfig) -> None:
        self._config = config
        self._state: State | None = None
        self._store: Store | None = None
        self._maps: Maps | None = None  # mapped files; a copy of an index shares them
        self._committed: tuple[Manifest, Snapshot] | None = None  # the snapshot keeps its files mapped

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
        """The precision of the vectors kept for reranking; None: none are kept."""
        return self._config.keep

    @property
    def lists_per_vector(self) -> int | None:
        """In how many lists the code of each vector is: 1 or 2; None: chosen when fitted."""
        given = self._config.lists_per_vector
        return given if self._state is None else self._state.snapshot.trained.lists_per_vector

    @property
    def code_dimensions(self) -> int | None:
        """The number of coordinates that lists and codes are made of; None: chosen when fitted."""
        given = self._config.code_dimensions
        return given if self._state is None else self._state.snapshot.trained.code_dimensions

    @property
    def seed(self) -> int:
        """The seed of every random choice."""
        return self._config.seed

    @property
    def chosen(self) -> str | None:
        """What was chosen for the index because it was not given, and why; None: the plain defaults."""
        state = self._state
        return self._config.chosen if state is None else choices_made(self._config, state.snapshot.trained)

    @property
    def dimensions(self) -> int:
        """The number of dimensions of the vectors."""
        return self._fitted().snapshot.trained.dimensions

    @property
    def attributes(self) -> pyarrow.Schema | None:
        """The names and types of the attributes, as an Arrow schema; None if there are none."""
        snapshot = self._fitted().snapshot
        return snapshot.columns if snapshot.has_attributes else None

    def fit(self, vectors: Any, *, expected: int | None = None, threads: int | None = None) -> Index:
        """Train lists and codes on a sample of (n, d) vectors. No vectors are added.

        Parameters
        ----------
        vectors : (n, d) floats, or an iterable of (n_i, d) batches
        expected : number of vectors that will be added, which determines the number of lists; None: n
        threads : number of threads; None: all CPUs of the process

        Returns the index itself.
        """
        self._state, _ = State.fit(self._config, Stream.of(vectors), expected, threads)
        return self

    def add(
        self,
        vectors: Any,
        ids: Any = None,
        *,
        attributes: Any = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[Any]:
        """Add vectors with new ids. Searches see either none or all of them.

        Parameters
        ----------
        vectors : (n, d) floats, or an iterable of (n_i, d) batches
        ids : (n,) int or str that are not in the index yet; all ids of an index have one type. None: counted on
            from the largest id that was ever used
        attributes : an Arrow table, a data frame or a dict of columns, with one row per vector
        threads : number of threads; None: all CPUs of the process
        progress : True: show a bar on standard error; or a function, called as progress(done, total) with
            numbers of vectors; total is None if it is unknown

        Returns
        -------
        ids : (n,) the ids of the added vectors
        """
        return self._insert(vectors, ids, attributes, False, threads, progress)

    def upsert(
        self,
        vectors: Any,
        ids: Any,
        *,
        attributes: Any = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
    ) -> NDArray[Any]:
        """Update: replace the vectors that have the same ids, and add the others.

        A search sees either all old vectors or all new ones. `update` changes attributes alone.

        Parameters
        ----------
        vectors : (n, d) floats, or an iterable of (n_i, d) batches
        ids : (n,) int or str, no two equal
        attributes : an Arrow table, a data frame or a dict of columns, with one row per vector. Columns that
            are not given keep the values of the vectors that are replaced; None: all columns
        threads : number of threads; None: all CPUs of the process
        progress : True: show a bar on standard error; or a function, called as progress(done, total) with
            numbers of vectors; total is None if it is unknown

        Returns
        -------
        ids : (n,) the ids of the vectors
        """
        return self._insert(vectors, ids, attributes, True, threads, progress)

    def update(self, ids: Any, attributes: Any) -> None:
        """Change attributes of existing vectors. Searches see either all old values or all new ones.

        Parameters
        ----------
        ids : (n,) int or str, no two equal; KeyError if one does not exist
        attributes : an Arrow table, a data frame or a dict of columns, with one row per id. Other columns stay
            as they are. A new column is null for all other vectors
        """
        self._refuse_readers()
        self._fitted().update(ids, attributes)

    def get(self, ids: Any) -> Any:
        """Return the attributes (metadata) of ids as an Arrow table. KeyError if an id does not exist."""
        return attributes_of(self._fitted().snapshot, ids)

    def remove(
        self, ids: Any = None, *, where: str | None = None, where_limits: WhereLimits | None = None
    ) -> int:
        """Delete vectors by their ids, or all for which a condition holds. Return how many were deleted.

        Rows are marked by tombstones. Their memory is freed by `compact`, which runs in the background when
        more than a quarter of the rows are deleted.

        Parameters
        ----------
        ids : int or str; ids that do not exist are ignored
        where : an SQL condition on attributes, instead of ids. Searches see either none or all of the vectors
            deleted
        where_limits : limits of time, memory and threads for the condition; None: pcpq.WhereLimits()
        """
        self._refuse_readers()
        state = self._fitted()
        if (ids is None) == (where is None):
            raise ValueError("remove takes either ids or where")
        return state.remove(ids) if where is None else state.remove_where(where, where_limits)

    def compact(self) -> None:
        """Merge all segments into one and drop deleted rows. Searches and additions continue meanwhile."""
        self._refuse_readers()
        self._fitted().compact()

    def refit(self, *, threads: int | None = None) -> Future[None]:
        """Train lists and codes again, on the vectors that the index holds now, in a background thread.

        Searches, additions and deletions continue meanwhile. Use it when `stats()["drift"]` is well above 1.
        Recall is measured again with vectors of the index; call `tune(queries)` again if you used queries
        before.

        Returns a Future; `refit().result()` waits for the end.
        """
        self._refuse_readers()
        available_threads(threads)
        if self.keep is None:
            raise ValueError("an index that keeps no vectors has nothing to learn from; build it anew")

        def train_again(snapshot: Snapshot) -> Trained:
            generator, n = np.random.default_rng(self.seed), len(snapshot)
            sample = sample_of(snapshot, training_rows(self._config, n), generator)
            return train_on(self._config, sample, n, None, generator, threads)

        def measure_again(snapshot: Snapshot) -> RecallCurve | None:
            return measure_index(snapshot, None, None, self.seed, threads) if len(snapshot) > FEW else None

        return self._fitted().refit(train_again, measure_again, threads)

    def tune(self, queries: Any = None, *, truth: Any = None, threads: int | None = None) -> RecallCurve:
        """Measure recall, so that searches with `target_recall` choose the right settings.

        `save` and `commit` store the measurement.

        Parameters
        ----------
        queries : (n, d) floats, a sample of the queries that the index serves; None: vectors of the index
        truth : (n, k) ids of the exact answers (ground truth), best first; None: computed from the kept
            vectors. Required if keep is None
        threads : number of threads; None: all CPUs of the process

        Returns
        -------
        curve : a RecallCurve; `curve.choose(k, target)` returns probes, rerank and the expected recall
        """
        state = self._fitted()
        snapshot = state.snapshot
        if len(snapshot) <= FEW:
            raise ValueError(f"{len(snapshot)} vectors are searched exactly; there is nothing to tune")
        curve = measure_index(snapshot, queries, truth, self.seed, threads)
        return state.set_recall_curve(curve, snapshot.trained)

    def _measured(self, request: SearchRequest) -> State:
        """Return the state; recall is measured first if the request needs it and it is unknown."""
        state = self._fitted()
        if request.target_recall is not None:
            request.check()
            if len(state.snapshot) > FEW:
                state.measure_once(
                    lambda snapshot: measure_index(snapshot, None, None, self.seed, request.threads)
                )
        return state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a directory. An index that is there already is replaced atomically."""
        state = self._fitted()
        store = Store.create(Path(path).absolute())
        with store.noting_commits():
            try:
                store.commit(lambda: state.contents, self._config)
                store.tidy()
            finally:
                store.close()

    def commit(self) -> None:
        """Store all changes since the last commit, atomically and durably.

        The index must be open with mode "a". Readers see the commit when they open the index or call `refresh`.
        Additions and removals in other threads continue meanwhile; the next commit stores them. If nothing has
        changed, nothing is written. An exception means that the commit was not made, unless it is a
        NotDurableError or its notes say otherwise.
        """
        store = self._writable_store()
        with store.noting_commits():
            state, known = self._fitted(), self._committed
            self._remember(state, *state.commit(store, self._config, None if known is None else known[0]))
            del known
            store.tidy()  # after the files of the previous commit are released

    def _remember(self, state: State, manifest: Manifest, snapshot: Snapshot) -> None:
        """Store the last commit, unless another thread has made a newer one or closed the index meanwhile."""
        with state.writing:
            last = self._committed
            if self._state is state and (last is None or last[0].generation < manifest.generation):
                self._committed = manifest, snapshot

    def backup(self, path: str | os.PathLike[str], *, copy: bool = False) -> None:
        """Copy the last commit to a new directory, while searches and changes continue.

        Parameters
        ----------
        path : the new directory, which must not exist or must be empty
        copy : False: use hard links where the file system supports them, which takes no time and no space, and
            copies elsewhere. True: always copy
        """
        self._fitted()
        committed = self._committed
        if self._store is None or committed is None:
            raise ValueError("this index is in memory only: save it")
        back_up(self._store.directory, committed[0], Path(path).absolute(), copy)

    def refresh(self) -> bool:
        """Switch to the newest commit on disk, and return whether there was a newer one. For mode "r"."""
        store = self._store
        if store is None or store.lock is not None:
            raise ValueError("only an index that was opened for reading has anything to refresh from")
        state, found = self._fitted(), False
        while True:
            with store.loading:
                known = self._committed
                if known is not None and store.newest() == known[0]:
                    return found
                manifest, snapshot = store.load()
                number, found = store.loads, True
            with state.writing:
                if (
                    self._state is state and store.shown < number
                ):  # neither closed nor refreshed by another thread
                    store.shown = number
                    self._replace(store, manifest, snapshot)
            if store.loads == number:  # no signal handler has loaded a newer commit in between
                return True

    def verify(self) -> None:
        """Compare all files of a stored index with their checksums; FormatError names a file that differs."""
        self._fitted()
        committed = self._committed  # held until the end: a commit or refresh may replace it meanwhile
        if self._store is not None and committed is not None:
            self._store.verify(committed[0])

    def close(self) -> None:
        """Close a stored index and release the writer's lock. Changes that were not committed are lost.

        A commit that is running in another thread is waited for. An index in memory needs no closing.
        """
        state, store = self._state, self._store  # another thread may close the index, too
        if store is not None:
            store.close()
            with nullcontext() if state is None else state.writing:
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
        exact: bool = False,
        filter: Any = None,
        exclude: Any = None,
        where: str | None = None,
        where_limits: WhereLimits | None = None,
        select: Sequence[str] | str | bool | None = None,
        threads: int | None = None,
    ) -> Result:
        """Find the k best vectors for each query.

        Parameters
        ----------
        queries : (n, d) floats for a batch, or (d,) for a single query
        k : number of results per query. If fewer vectors can be found, the remaining ids are -1 (None for
            string ids). All results together may take at most 2 GiB
        target_recall : share of the true k best vectors to find, from 0 to 1; probes and rerank are chosen to
            reach it. None: 0.95. It cannot be combined with probes
        probes : number of lists to scan, on average: where neighbours are spread over many lists, a query scans
            more. None: chosen by target_recall, or a twentieth of the lists if recall
            was never measured (see `tune`)
        rerank : number of candidates to rerank, at least k. None: chosen by target_recall, or the larger of 100
            and 10 k
        exact : True: compare all kept vectors (brute force) instead of probing lists. The scores are those of
            other searches. An index with keep=None cannot do it
        filter : ids that may be found: an array, a list, a set or a Bitmap; or a mask of bool with one value
            for every id from 0 to the largest that was ever used. None: all
        exclude : ids that must not be found, in the same forms
        where : an SQL condition on attributes, such as "lang = 'en' AND year > 2020". It is evaluated on
            existing rows that filter and exclude allow
        where_limits : limits of time, memory and threads for the condition; None: pcpq.WhereLimits()
        select : names of attributes to return with the results, in `result.attributes`; True or "*": all
        threads : number of threads; None: all CPUs of the process for a batch, one for a single query

        Returns
        -------
        result : a Result, which unpacks to scores and ids, best first
        """
        state = self._fitted()
        if exact is False and filter is None and exclude is None and where is None:
            snapshot, kind, _ = state.contents
            plan = known_plan(snapshot, k, target_recall, probes, rerank, threads)
            found = None if plan is None else snapshot.scan_single(queries, plan)
            if plan is not None and found is not None:
                if plan.sample is not None:
                    check_recall(snapshot, queries, plan)
                return found if kind == "int" and select is None else result_of(kind, snapshot, found, select)
        request = SearchRequest(
            k=k,
            target_recall=target_recall,
            probes=probes,
            rerank=rerank,
            filter=as_bitmap(filter, state.next_id, state.kind),
            exclude=as_bitmap(exclude, state.next_id, state.kind),
            where=where,
            where_limits=where_limits,
            threads=threads,
            exact=exact,
        )
        # Read once, because a refresh may replace the contents by those with ids of another kind.
        snapshot, kind, _ = self._measured(request).contents
        return result_of(kind, snapshot, search(snapshot, queries, request), select)

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
        """Find all vectors that score at least `min_score`, or are within the squared distance `max_distance`.

        Parameters
        ----------
        queries : (n, d) floats
        min_score : smallest score; for "dot" and "cosine"
        max_distance : largest squared distance; for "euclidean"
        probes : number of lists to scan; None: as many as a search for 100 results with the default target
            scans
        filter : ids that may be found: an array, a list, a set or a Bitmap; or a mask of bool with one value
            for every id from 0 to the largest that was ever used. None: all
        exclude : ids that must not be found, in the same forms
        where : an SQL condition on attributes
        where_limits : limits of time, memory and threads for the condition; None: pcpq.WhereLimits()
        threads : number of threads; None: all CPUs of the process

        Returns
        -------
        limits : (n + 1,) int64; the results of query i are those from limits[i] to limits[i + 1]
        scores, ids : scores and ids of all queries, one query after the other, each best first
        """
        bound = range_bound(self.metric, min_score, max_distance)
        state = self._fitted()
        request = SearchRequest(
            k=1,
            probes=probes,
            filter=as_bitmap(filter, state.next_id, state.kind),
            exclude=as_bitmap(exclude, state.next_id, state.kind),
            where=where,
            where_limits=where_limits,
            threads=threads,
        )
        snapshot = state.snapshot
        limits, scores, ids = search_range(snapshot, queries, request, bound)
        return limits, scores, as_given(state.kind, snapshot, ids)

    def where(self, condition: str, where_limits: WhereLimits | None = None) -> Bitmap:
        """Return the ids for which an SQL condition on attributes holds now, for `filter` and `exclude`.

        Parameters
        ----------
        condition : an SQL condition, such as "lang = 'en' AND year > 2020"
        where_limits : limits of time, memory and threads for the condition; None: pcpq.WhereLimits()

        Returns
        -------
        bitmap : a Bitmap, which later changes of the index do not change
        """
        return self._fitted().snapshot.bitmap_where(condition, where_limits)

    def ids(self, where: str | None = None, where_limits: WhereLimits | None = None) -> NDArray[Any]:
        """Return the ids of all vectors, or of those for which an SQL condition holds.

        Integers (int64) are ascending. Strings (objects) are in the order in which they were added; an upsert
        adds anew.

        Parameters
        ----------
        where : an SQL condition on attributes; None: all vectors
        where_limits : limits of time, memory and threads for the condition; None: pcpq.WhereLimits()
        """
        snapshot, kind, _ = self._fitted().contents
        return as_given(kind, snapshot, snapshot.numbers(where, where_limits))

    def batches(
        self, size: int = 10_000, *, vectors: bool = True, attributes: Sequence[str] | str | bool = False
    ) -> Iterator[tuple[Any, ...]]:
        """Iterate over all vectors as they are now, in the order of `ids()`. Later changes are not seen.

        Parameters
        ----------
        size : number of vectors per batch; the last batch may be smaller
        vectors : whether batches hold vectors: kept ones, or decoded codes if keep is None
        attributes : True: batches hold all attributes; names of columns: these

        Yields
        ------
        batch : a tuple of ids, (n, d) float32 vectors and an Arrow table of attributes, without those that are
            not wanted
        """
        size = whole_number("size", size, 1, LARGEST_K)
        snapshot, kind, _ = self._fitted().contents
        columns = None
        if attributes is not False and snapshot.parts:
            columns = selected_columns(snapshot.columns.names, attributes, "attributes")
        return batches_of(snapshot, lambda ids: as_given(kind, snapshot, ids), size, vectors, columns)

    def explain(self, query: Any, k: int = 10, **options: Any) -> dict[str, Any]:
        """Report the work of a search: numbers of lists, rows and candidates, and the seconds of each stage.

        Parameters
        ----------
        query : (d,) floats
        k : number of results
        options : target_recall, probes, rerank, exact, filter, exclude, where and where_limits, as in `search`
        """
        for name in options:
            if name not in SearchRequest._fields:
                raise ValueError(f"explain has no option {name!r}")
        for name in ("filter", "exclude"):
            options[name] = as_bitmap(options.get(name), self._fitted().next_id, self._fitted().kind)
        request = SearchRequest(k=k, **options)
        return explain(self._measured(request).snapshot, query, request)

    def reconstruct(self, ids: Any) -> Float32Array:
        """Return the (n, d) float32 vectors of n ids: the kept vectors, or decoded codes if keep is None."""
        return vectors_of(self._fitted().snapshot, ids)

    def stats(self) -> dict[str, Any]:
        """Return statistics as a dict.

        Among them: "bytes_per_vector" by part, "vectors", "dimensions", "lists", "segments", "removed" (rows
        with a tombstone), "largest_list", "empty_lists", "imbalance" (1 if all lists are equally long), "drift"
        (1 if vectors are as near to their centroids as in training; if it is larger, `refit` helps) and
        "chosen" (what was not given, such as codes for a number of bytes or for the processor, and why).
        """
        chosen = self.chosen
        return statistics(self._fitted().snapshot) | ({} if chosen is None else {"chosen": chosen})

    def __len__(self) -> int:
        return 0 if self._state is None else len(self._state.snapshot)

    def __contains__(self, some_id: Any) -> bool:
        state = self._state
        if state is None or not is_id(some_id, state.kind):
            return False
        return any((rows >= 0).any() for rows in state.snapshot.find([some_id]))

    def __repr__(self) -> str:
        return f"Index({', '.join(f'{name}={value!r}' for name, value in self._facts().items())})"

    def _repr_html_(self) -> str:
        """Return the size and settings of the index as a table, for notebooks."""
        chosen = self.chosen
        facts = self._facts() | ({} if chosen is None else {"chosen": chosen})
        shown = {name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in facts.items()}
        return table("pcpq.Index", [], [[name.replace("_", " "), value] for name, value in shown.items()])

    def _facts(self) -> dict[str, Any]:
        """Return the size and settings that describe the index, without reading its vectors or attributes."""
        state, store = self._state, self._store
        facts: dict[str, Any] = {"metric": self.metric, "vectors": len(self), "keep": self.keep}
        if state is not None:
            trained = state.snapshot.trained
            facts |= {"dimensions": trained.dimensions, "lists": len(trained.partition)}
            facts["bytes_per_vector"] = round(bytes_without_attributes(state.snapshot) / max(len(self), 1), 1)
        else:
            facts["state"] = "not fitted" if store is None else "closed"
        return facts | ({} if store is None else {"path": str(store.directory)})

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles and copies, which are independent of the store."""
        own = {"_state": copy(self._state), "_store": None, "_maps": None, "_committed": None}
        return vars(self) | own

    def __copy__(self) -> Index:
        """Return an independent index in memory that shares the mapped files."""
        new = type(self).__new__(type(self))
        vars(new).update(self.__getstate__() | {"_maps": self._maps})
        return new

    def _fitted(self) -> State:
        state = self._state  # read once: another thread may close the index meanwhile
        if state is None and self._store is not None:
            raise ValueError(f"this index is closed; open {self._store.directory} again")
        if state is None:
            raise NotFittedError("this Index is not fitted: call fit first, or use pcpq.build")
        if self._maps is not None:
            self._maps.refuse_changed_sizes()
        return state

    def _insert(
        self,
        vectors: Any,
        ids: Any,
        attributes: Any,
        replacing: bool,
        threads: int | None,
        progress: Progress | bool | None,
    ) -> NDArray[Any]:
        state, stream = self._fitted(), Stream.of(vectors)
        self._refuse_readers()
        with reported(progress, "adding vectors") as report:
            return state.add(stream, ids, attributes, replacing=replacing, threads=threads, progress=report)

    def _refuse_readers(self) -> None:
        if self._store is not None and self._store.lock is None:
            raise ValueError(f"{self._store.directory} is open for reading only; open it with mode='a'")

    def _writable_store(self) -> Store:
        self._refuse_readers()
        if self._store is None:
            raise ValueError("this index is in memory only: save it, or open one with mode='a'")
        return self._store

    def _replace(self, store: Store, manifest: Manifest, snapshot: Snapshot) -> None:
        """Replace settings and contents by those of a stored generation, which may be another index."""
        before = None if self._state is None else self._state.snapshot.recall
        if before is not None and before.same_as(snapshot.recall):  # its check goes on
            snapshot = replace(snapshot, recall=before)
        self._config, self._store, self._maps = manifest.config, store, store.maps
        state = self._state or State(snapshot.trained)
        state.replace(snapshot, manifest.kind, manifest.next_id)
        self._state, self._committed = state, (manifest, snapshot)


def index_of(config: IndexConfig, state: State) -> Index:
    """Return a fitted index with a given state."""
    index = Index.from_config(config)
    index._state = state
    return index


def opened_index(store: Store) -> Index:
    """Open the newest generation of a store as an index."""
    manifest, snapshot = store.load()
    index = Index.from_config(manifest.config)
    index._replace(store, manifest, snapshot)
    return index


def state_of(index: Index) -> State:
    """Return the state of a fitted index, for commands and integrations."""
    return index._fitted()


def generation_of(index: Index) -> int:
    """Return the number of the generation that a stored index was opened from or committed last."""
    committed = index._committed
    if committed is None:
        raise ValueError("this index is in memory only: it has no generation")
    return committed[0].generation


def result_of(kind: str | None, snapshot: Snapshot, found: Result, select: Any) -> Result:
    """Return the result of a search with ids in the user's form and the selected attributes."""
    selected = None if select is None or select is False else selected_attributes(snapshot, found.ids, select)
    return found._replace(ids=as_given(kind, snapshot, found.ids), attributes=selected)


def as_given(kind: str | None, snapshot: Snapshot, ids: Ids) -> NDArray[Any]:
    """Return the ids of a search in the user's form; `kind` decides if the snapshot has no vectors."""
    return snapshot.strings(ids) if (snapshot.has_string_ids if snapshot.parts else kind == "str") else ids
