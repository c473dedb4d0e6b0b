"""Index, the class that users work with. It composes other modules and contains no mathematics."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.arrays import Float32Array, Ids
from pcpq.errors import FormatError, NotFittedError
from pcpq.fitting import check_choices, train, training_rows
from pcpq.foreign import as_array
from pcpq.lookup import attributes_of, statistics, vectors_of
from pcpq.names import is_id
from pcpq.parallel import available_threads
from pcpq.quantizers import Quantizer, refuse_subclass
from pcpq.quantizers.options import whole_number
from pcpq.recall import FEW, RecallCurve, check_target
from pcpq.refit import sample_of
from pcpq.rows import RowsBuilder
from pcpq.search import Result, as_returned, ask, explain, find, find_one, find_range, make_plan, range_plan
from pcpq.search import range_bound as bound_of
from pcpq.snapshot import Snapshot
from pcpq.state import State
from pcpq.storage.backup import back_up
from pcpq.storage.files import Maps, reading
from pcpq.storage.manifest import MANIFEST, Manifest
from pcpq.storage.objects import quantizer_of, quantizer_settings
from pcpq.storage.store import Store
from pcpq.streams import Sample, Stream
from pcpq.trained import Trained
from pcpq.truth import rows_apart
from pcpq.tuning import measure_index
from pcpq.where import WhereLimits

Progress = Callable[[int, int | None], None]


class Index:
    """An inverted-file index: lists of codes, which are scanned, and of vectors, which rerank candidates.

    `pcpq.build` makes one from vectors, `pcpq.open` opens a stored one. `Index(...)` creates an empty index for
    `fit` and `add`. Any number of threads can search while others change the index.

    Parameters
    ----------
    metric : "dot" (inner product), "cosine" or "euclidean"
    quantizer : an unfitted quantizer for the residuals of the lists. Codes with at most 16 codewords and 16
        scales per section are scanned fastest. None: PQ(section_size=2) if vectors are kept,
        QPCPQ(section_size=2) with 16 scales if keep is None
    n_lists : number of inverted lists; None: twice the square root of the number of vectors
    rotation : rotation of vectors before they are split into sections: None, "random", or "learned" from the
        codes
    codebooks : "shared": one codebook for all lists; "per_list": one for each list
    keep : precision of the vectors that are kept for reranking: "int8", "int16", "float16", "float32", or None
        to keep codes only
    seed : seed of all random choices
    """

    chosen: str | None = None  # what build chose for a number of bytes, and why

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
        check_choices(metric=metric, rotation=rotation, codebooks=codebooks, keep=keep)
        if quantizer is not None:
            refuse_subclass(quantizer)
        if n_lists is not None:
            whole_number("n_lists", n_lists, 1, 1 << 24)
        self.metric, self.quantizer, self.n_lists = metric, quantizer, n_lists
        self.rotation, self.codebooks, self.keep = rotation, codebooks, keep
        self.seed = whole_number("seed", seed, 0, (1 << 63) - 1)
        self._state: State | None = None
        self._store: Store | None = None
        self._maps: Maps | None = None  # of the store, or of that of the index that this one is a copy of
        self._committed: tuple[Manifest, Snapshot] | None = None  # the snapshot keeps its files

    def fit(self, vectors: Any, *, expected: int | None = None, threads: int | None = None) -> Index:
        """Train lists and codes on a sample of (n, d) vectors. No vectors are added.

        Parameters
        ----------
        vectors : (n, d) floats, or an iterable of (n_i, d) batches
        expected : number of vectors that will be added, which determines the number of lists; None: n
        threads : number of threads; None: all CPUs of the process

        Returns the index itself.
        """
        self._learn(Stream.of(vectors), expected, threads)
        return self

    def _learn(self, stream: Stream, expected: int | None, threads: int | None, apart: bool = False) -> Sample:
        """Fit; returns a few vectors that nothing was learned from, none unless asked for."""
        n = stream.length if expected is None else expected
        generator = np.random.default_rng(self.seed)
        sample = stream.sample(training_rows(self, n), generator)
        held_out, rest = sample.split(rows_apart(len(sample), self.seed) if apart else np.empty(0, np.intp))
        self._state = State(train(self, rest, n, generator, threads))
        return held_out

    def add(
        self,
        vectors: Any,
        ids: Any = None,
        *,
        attributes: Any = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> NDArray[Any]:
        """Add vectors with new ids. Searches see either none or all of them.

        Parameters
        ----------
        vectors : (n, d) floats, or an iterable of (n_i, d) batches
        ids : (n,) int or str that are not in the index yet; all ids of an index have one type. None: counted on
            from the largest id that was ever used
        attributes : an Arrow table, a data frame or a dict of columns, with one row per vector
        threads : number of threads; None: all CPUs of the process
        progress : called as progress(done, total) with numbers of vectors; total is None if it is unknown

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
        progress: Progress | None = None,
    ) -> NDArray[Any]:
        """Update: replace the vectors that have the same ids, and add the others.

        A search sees either all old vectors or all new ones.

        Parameters
        ----------
        vectors : (n, d) floats, or an iterable of (n_i, d) batches
        ids : (n,) int or str, no two equal
        attributes : an Arrow table, a data frame or a dict of columns, with one row per vector
        threads : number of threads; None: all CPUs of the process
        progress : called as progress(done, total) with numbers of vectors; total is None if it is unknown

        Returns
        -------
        ids : (n,) the ids of the vectors
        """
        return self._insert(vectors, ids, attributes, True, threads, progress)

    def get(self, ids: Any) -> Any:
        """Return the attributes (metadata) of ids as an Arrow table. KeyError if an id does not exist."""
        return attributes_of(self._fitted().snapshot, ids)

    def remove(self, ids: Any) -> int:
        """Delete vectors by their ids, and return how many of the ids existed.

        Rows are marked by tombstones. Their memory is freed by `compact`, which runs in the background when
        more than a quarter of the rows are deleted.
        """
        self._refuse_readers()
        return self._fitted().remove(ids)

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
        if self.keep is None:
            raise ValueError("an index that keeps no vectors has nothing to learn from; build it anew")

        def train_again(snapshot: Snapshot) -> Trained:
            generator, n = np.random.default_rng(self.seed), len(snapshot)
            sample = sample_of(snapshot, training_rows(self, n), generator)
            return train(self, sample, n, generator, threads)

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
        return state.know(measure_index(snapshot, queries, truth, self.seed, threads), snapshot.trained)

    def _measured(self, target_recall: float | None, probes: int | None, threads: int | None) -> State:
        """Once, when somebody first asks for a recall."""
        state = self._fitted()
        check_target(target_recall, probes)
        if target_recall is not None and len(state.snapshot) > FEW:
            state.measure_once(lambda snapshot: measure_index(snapshot, None, None, self.seed, threads))
        return state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a directory. An index that is there already is replaced atomically."""
        state, settings = self._fitted(), self._settings()
        store = Store.create(Path(path).absolute())
        with store.telling_what_is_there():
            try:
                state.store(store, settings, adopt=False)
                store.tidy()
            finally:
                store.close()

    def commit(self) -> None:
        """Store all changes since the last commit, atomically and durably.

        The index must be open with mode "a". Readers see the commit when they open the index or call `refresh`.
        An exception means that the commit was not made, unless it is a NotDurableError or its notes say
        otherwise.
        """
        store = self._writable_store()
        with store.telling_what_is_there():
            stored = self._fitted().store(store, self._settings(), adopt=True)
            if store.manifest is not None:
                self._committed = store.manifest, stored
            del stored
            store.tidy()  # now that what was committed before is not held any more

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
        with self._fitted().writing:
            manifest, snapshot = store.load()
            if self._committed is not None and manifest == self._committed[0]:
                return False
            self._show(store, manifest, snapshot)
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
        """Find the k best vectors for each query.

        Parameters
        ----------
        queries : (n, d) floats for a batch, or (d,) for a single query
        k : number of results per query. If fewer vectors can be found, the remaining ids are -1 (None for
            string ids). All results together may take at most 2 GiB
        target_recall : share of the true k best vectors to find, from 0 to 1; probes and rerank are chosen to
            reach it. None: 0.95. It cannot be combined with probes
        probes : number of lists to scan. None: chosen by target_recall, or a twentieth of the lists if recall
            was never measured (see `tune`)
        rerank : number of candidates to rerank, at least k. None: chosen by target_recall, or the larger of 100
            and 10 k
        filter : ids that may be found, an array or a Bitmap; None: all
        exclude : ids that must not be found
        where : an SQL condition on attributes, such as "lang = 'en' AND year > 2020". It is evaluated on
            existing rows that filter and exclude allow
        where_limits : limits of time, memory and threads for the condition; None: pcpq.WhereLimits()
        threads : number of threads; None: all CPUs of the process for a batch, one for a single query

        Returns
        -------
        result : a Result, which unpacks to scores and ids, best first
        """
        state = self._measured(target_recall, probes, threads)
        snapshot = state.snapshot  # once: a refresh may replace it by one with ids of another kind
        if (
            filter is None
            and exclude is None
            and where is None
            and state.kind == "int"
            and not snapshot.of_words
        ):
            found = find_one(snapshot, queries, k, probes, rerank, target_recall)
            if found is not None:
                return found
        queries = as_array(queries, "queries")
        single = queries.ndim == 1
        threads = 1 if single and threads is None else threads
        asked = ask(snapshot.trained, queries)
        filters = (filter, exclude, where, threads, where_limits)
        plan = make_plan(snapshot, k, probes, rerank, target_recall, *filters)
        scores, ids = find(snapshot, asked, plan)
        found = Result(as_returned(snapshot.trained, scores, asked.unit), as_given(state.kind, snapshot, ids))
        return Result(found.scores[0], found.ids[0]) if single else found

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
        filter : ids that may be found, an array or a Bitmap; None: all
        exclude : ids that must not be found
        where : an SQL condition on attributes
        where_limits : limits of time, memory and threads for the condition; None: pcpq.WhereLimits()
        threads : number of threads; None: all CPUs of the process

        Returns
        -------
        limits : (n + 1,) int64; the results of query i are those from limits[i] to limits[i + 1]
        scores, ids : scores and ids of all queries, one query after the other, each best first
        """
        bound = bound_of(self.metric, min_score, max_distance)
        state = self._fitted()
        snapshot = state.snapshot
        asked = ask(snapshot.trained, queries)
        plan = range_plan(snapshot, probes, filter, exclude, where, threads, where_limits)
        limits, scores, ids = find_range(snapshot, asked, plan, bound / (snapshot.trained.unit * asked.unit))
        return limits, as_returned(snapshot.trained, scores, asked.unit), as_given(state.kind, snapshot, ids)

    def explain(self, query: Any, k: int = 10, **options: Any) -> dict[str, Any]:
        """Report the work of a search: numbers of lists, rows and candidates, and the seconds of each stage.

        Parameters
        ----------
        query : (d,) floats
        k : number of results
        options : target_recall, probes, rerank, filter, exclude, where and where_limits, as in `search`
        """
        state = self._measured(options.get("target_recall"), options.get("probes"), None)
        return explain(state.snapshot, query, k, **options)

    def reconstruct(self, ids: Any) -> Float32Array:
        """Return the (n, d) float32 vectors of n ids: the kept vectors, or decoded codes if keep is None."""
        return vectors_of(self._fitted().snapshot, ids)

    def stats(self) -> dict[str, Any]:
        """Return statistics as a dict.

        Among them: "bytes_per_vector" by part, "vectors", "dimensions", "lists", "segments", "removed" (rows
        with a tombstone), "largest_list", "empty_lists", "imbalance" (1 if all lists are equally long), "drift"
        (1 if vectors are as near to their centroids as in training; if it is larger, `refit` helps) and
        "chosen" (for an index built with bytes_per_vector: quantizer, precision and the reason).
        """
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
        settings, path, trained = dict(manifest.settings), store.directory / MANIFEST, snapshot.trained
        with reading(path):
            chosen = settings.pop("chosen", None)
            if settings.get("quantizer") is not None:
                settings["quantizer"] = quantizer_of(settings["quantizer"], path)
            known = {"_store": store, "_maps": store.maps, "_state": self._state, "_committed": self._committed}
            vars(self).update(vars(Index(**settings)) | known)
            self.chosen = None if chosen is None else str(chosen)
            if (self.metric, self.keep) != (trained.metric, trained.keep):
                raise FormatError(
                    f"{path}: {self.metric}, {self.keep}; trained for {trained.metric}, {trained.keep}"
                )
        state = self._state or State(trained)
        state.show(snapshot, manifest.kind, manifest.next_id)
        self._state, self._committed = state, (manifest, snapshot)

    def _settings(self) -> dict[str, Any]:
        names = ("metric", "n_lists", "rotation", "codebooks", "keep", "seed", "chosen")
        quantizer = None if self.quantizer is None else quantizer_settings(self.quantizer)
        return {name: getattr(self, name) for name in names} | {"quantizer": quantizer}


def as_given(kind: str | None, snapshot: Snapshot, ids: Ids) -> NDArray[Any]:
    """Numbers that a search found, or their words; `kind` is that of an index without vectors."""
    return snapshot.words(ids) if (snapshot.of_words if snapshot.parts else kind == "str") else ids
