"""build: the same index as a build in one process, built by all nodes of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import ray
from numpy.typing import NDArray

from pcpq.building import config_for, learn, open_index
from pcpq.config import DEFAULT_KEEP
from pcpq.index import Index, state_of
from pcpq.integrations.ray.encoding import Encoded, batch_rows, encode_part
from pcpq.integrations.ray.merging import (
    Written,
    finish,
    frame_of,
    placed,
    ranges_of_lists,
    reserve,
    write_lists,
)
from pcpq.integrations.ray.sampling import GatheredStream
from pcpq.integrations.ray.sources import Source, source_of, values_of
from pcpq.integrations.ray.tasks import in_order, run
from pcpq.io.arrays import FloatArray, Ids
from pcpq.quantizers import Quantizer
from pcpq.search.recall_curve import FEW, RecallCurve
from pcpq.search.snapshot import Snapshot
from pcpq.segment.attributes import Attributes, arrow
from pcpq.segment.ids import NewIds, new_ids
from pcpq.segment.part import Part
from pcpq.segment.segment import Segment
from pcpq.segment.trained import Trained
from pcpq.store.changes import Progress, sorted_attributes
from pcpq.store.manifest import MANIFEST
from pcpq.store.serialization import read_segment
from pcpq.store.store import Contents, Store
from pcpq.store.tensors import FileEntry
from pcpq.tuning.ground_truth import ExactAnswers, TuningQueries
from pcpq.tuning.measure import measure
from pcpq.util.progress import reported
from pcpq.util.threads import available_threads

# Searches number the codes of a segment with 32 bits.
MOST_CODES = (1 << 31) - 1
# Approximate bytes of encoded rows, or of vectors read for a sample, per task.
TASK_BYTES = 1 << 27
# Tasks per CPU; with several, a slow task delays the build less.
TASKS_PER_CPU = 4
# Times that a task is repeated because its worker or its node died.
RETRIES = 10


Learn = Callable[[GatheredStream], tuple[Index, TuningQueries]]


@dataclass(frozen=True)
class Work:
    """Data that all tasks of a build share, stored once in the object store of the cluster."""

    directory: Path
    source: Any
    trained: Any = None
    asked: Any = None


def build(
    vectors: Any,
    path: str | os.PathLike[str],
    ids: Any = None,
    *,
    metric: str | None = None,
    column: str | None = None,
    id_column: str | None = None,
    attributes: Any = None,
    queries: Any = None,
    bytes_per_vector: float | None = None,
    like: str | os.PathLike[str] | None = None,
    first_id: int = 0,
    threads: int | None = None,
    task_bytes: int = TASK_BYTES,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
    quantizer: Quantizer | None = None,
    n_lists: int | None = None,
    rotation: str | None = None,
    codebooks: str = "shared",
    keep: str | None = DEFAULT_KEEP,
    lists_per_vector: int | None = None,
    code_dimensions: int | None = None,
    seed: int = 0,
) -> Index:
    """Build an index from files or a dataset on all nodes of the connected Ray cluster.

    The directory contains the same bytes as `pcpq.build` of the same vectors in one array and `save` would
    write, except for file names.

    Parameters
    ----------
    vectors : a path, a glob, an fsspec URL, or a list of them; or a Ray Data dataset. URLs can be .npy and
        .parquet files; all other formats need paths that every node sees
    path : the directory of the index, which every node must see under the same path
    ids : (n,) int or str; None: the values of `id_column`, or counted from first_id
    column : column of vectors in tables; None: the only column of vectors
    id_column : column of ids in tables; None: no ids
    attributes : a table with one row per vector, or names of columns that are read with the vectors
    metric : "dot", "cosine" or "euclidean"
    queries : (m, d) floats, a sample of queries with which recall is measured; None: vectors held back
    bytes_per_vector : memory budget, from which quantizer and keep are chosen
    overwrite : True: replace an existing index, atomically; False: refuse to (FileExistsError)
    progress : True: show a bar on standard error; or a function, called as progress(done, total) with numbers
        of vectors; total is None if it is unknown
    like : directory of an index whose lists and codebooks are used, instead of a metric and of training.
        Indexes in several directories can then be searched as one (ShardedIndex)
    first_id : first id if no ids are given
    threads : number of threads of the calling process, for training and measuring; each task has one
    task_bytes : approximate number of bytes of rows per task
    quantizer, n_lists, rotation, codebooks, keep, lists_per_vector, code_dimensions, seed : the
        parameters of pcpq.build

    Returns
    -------
    index : a pcpq.Index, open for reading
    """
    available_threads(threads)
    directory = Path(path).absolute()
    if not overwrite and (directory / MANIFEST).exists():
        raise FileExistsError(f"{directory} exists already: overwrite=True replaces it")
    source = source_of(vectors, column)
    refuse_too_many(len(source), 1)
    if (metric is None) == (like is None):
        raise ValueError(f"metric is {metric!r}, like is {like!r}: give one of them")

    def learn_here(stream: GatheredStream) -> tuple[Index, TuningQueries]:
        config = config_for(
            stream,
            bytes_per_vector,
            metric=str(metric),
            quantizer=quantizer,
            n_lists=n_lists,
            rotation=rotation,
            codebooks=codebooks,
            keep=keep,
            lists_per_vector=lists_per_vector,
            code_dimensions=code_dimensions,
            seed=seed,
        )
        return learn(stream, config, queries, threads)

    learned: Learn = learn_here
    if like is not None:
        optional = (
            queries,
            bytes_per_vector,
            quantizer,
            n_lists,
            rotation,
            lists_per_vector,
            code_dimensions,
        )
        if any(value is not None for value in optional) or (
            codebooks != "shared" or keep is not DEFAULT_KEEP or seed != 0
        ):
            raise ValueError(
                f"like is {os.fspath(like)}, which determines all settings: no others are accepted"
            )
        learned = learned_from(like)
    given = new_ids(given_ids(source, ids, id_column), len(source), None, first_id)
    found = given_attributes(source, attributes)
    known = None if found is None else sorted_attributes(found, given.numbers)
    store = Store.create(directory)
    try:
        with reported(
            progress, "encoding vectors", "merging, measuring recall", "learning from a sample"
        ) as report:
            Build(store, source, task_bytes, threads, report).run(given, known, learned)
    except BaseException:
        store.tidy()
        raise
    finally:
        store.close()
    return open_index(directory)


class Build:
    """One build, from the sample to the commit. Tasks that die are repeated."""

    def __init__(
        self, store: Store, source: Source, task_bytes: int, threads: int | None, progress: Progress | None
    ) -> None:
        self.store, self.source, self.threads, self.progress = store, source, threads, progress
        self.task_bytes = task_bytes
        self.work = Work(store.directory, ray.put(source))

    def run(self, given: NewIds, known: Attributes | None, learned: Learn) -> None:
        """Train, encode, merge, measure and commit; ids and attributes are checked already."""
        n = len(self.source)
        index, asked = learned(GatheredStream(n, self.source.dimensions, self._gather))
        known_before = state_of(index).snapshot
        trained = known_before.trained
        refuse_too_many(n, trained.lists_per_vector)
        if trained.dimensions != self.source.dimensions:
            raise ValueError(
                f"vectors have {self.source.dimensions} dimensions, the index has {trained.dimensions}"
            )
        counted = (
            given.numbers[0] == 0 and given.numbers[-1] == n - 1 and bool((np.diff(given.numbers) == 1).all())
        )
        numbers = None if counted else given.numbers
        encoded, exact = self._encode(trained, asked if len(asked) else None, numbers)
        segment, entry = self._merge(trained, encoded, given)
        segment = replace(segment, attributes=known)
        snapshot = Snapshot(trained, (Part.whole(segment),), known_before.recall)
        if exact is not None and n > FEW:
            snapshot = replace(snapshot, recall=self._measure(snapshot, asked, exact, given))
        self.store.adopt(segment.name, entry)
        next_id = int(given.numbers.max()) + 1
        self.store.commit(lambda: Contents(snapshot, given.kind, next_id), index.config)
        self.store.tidy()

    def _gather(self, numbers: NDArray[np.intp] | None) -> FloatArray:
        """Return the rows of the sample; numbers None: all rows."""
        tasks = []
        for rows in self._pieces():
            wanted = None
            if numbers is not None:
                low, high = np.searchsorted(numbers, [rows.start, rows.stop])
                wanted = numbers[low:high]
                if high == low:
                    continue
            tasks.append(partial(take_task.remote, self.work, rows, wanted))
        n = len(self.source) if numbers is None else len(numbers)
        found: FloatArray | None = None
        first = 0
        with closing(in_order(tasks)) as parts:
            for part in parts:
                if found is None:
                    found = np.empty((n, part.shape[1]), part.dtype)
                if part.dtype != found.dtype:
                    raise ValueError(
                        f"vectors are of {found.dtype} and {part.dtype}; all must be of one precision"
                    )
                found[first : first + len(part)] = part
                first += len(part)
        if found is None or first != n:
            raise ValueError(f"{first} vectors were read for a sample of {n}; did files change meanwhile?")
        return found

    def _pieces(self, row_bytes: int | None = None) -> list[slice]:
        """Return the ranges of rows of the tasks, each a whole number of batches."""
        n, batch = len(self.source), batch_rows(self.source.dimensions)
        row_bytes = row_bytes or 4 * self.source.dimensions
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        rows = min(self.task_bytes // row_bytes, -(-n // (TASKS_PER_CPU * cpus)))
        step = max(1, -(-rows // batch)) * batch
        return [slice(first, min(first + step, n)) for first in range(0, n, step)]

    def _encode(
        self, trained: Trained, asked: TuningQueries | None, numbers: Ids | None
    ) -> tuple[list[Encoded], ExactAnswers | None]:
        """Encode all vectors into files of rows; return them and the ground truth of the tuning queries."""
        work = replace(self.work, trained=ray.put(trained), asked=ray.put(asked))
        # Most of a row is its kept vector; codes and other columns need at most as many bytes again.
        pieces = self._pieces(4 * trained.dimensions + 32)
        tasks = [
            partial(encode_task.remote, work, rows, None if numbers is None else numbers[rows])
            for rows in pieces
        ]
        exact: ExactAnswers | None = None
        parts: list[Encoded | None] = [None] * len(pieces)
        done = 0
        with closing(run(tasks)) as results:
            for number, part in results:
                if asked is not None and part.found is not None:
                    before = [] if exact is None else [exact.found()]
                    exact = ExactAnswers.merged(trained, asked, [*before, part.found])
                parts[number] = replace(part, found=None)
                done += pieces[number].stop - pieces[number].start
                if self.progress is not None:
                    self.progress(done, len(self.source))
        return [part for part in parts if part is not None], exact

    def _merge(
        self, trained: Trained, encoded: Sequence[Encoded], given: NewIds, extra: int = 0
    ) -> tuple[Segment, FileEntry]:
        """Merge all files of rows into one segment."""
        name = uuid4().hex
        frame = placed(
            frame_of(self.store.directory, name, trained, encoded, given.names), encoded, extra=extra
        )
        reserve(frame)
        shared, model = ray.put(frame), ray.put(trained)
        entries = [part.entry for part in encoded]
        row_bytes = max(1, sum(part.entry.bytes for part in encoded) // len(self.source))
        tasks = [
            partial(merge_task.remote, shared, model, entries, lists)
            for lists in ranges_of_lists(frame, max(1, self.task_bytes // row_bytes))
        ]
        written: list[Written] = [some for _, some in run(tasks)]
        entry = finish(frame, encoded, written, given.names)
        return read_segment(self.store.directory, entry, name, trained), entry

    def _measure(
        self, snapshot: Snapshot, asked: TuningQueries, exact: ExactAnswers, given: NewIds
    ) -> RecallCurve:
        """Return the recall curve, measured as in pcpq.build."""
        numbers = given.numbers
        truth = exact.truth().renumbered(numbers)
        return measure(snapshot, asked.renumbered(numbers), truth, self.threads)


def refuse_too_many(n: int, lists_per_vector: int) -> None:
    """Raise a ValueError if one directory cannot hold n vectors."""
    most = MOST_CODES // lists_per_vector
    if n > most:
        raise ValueError(f"{n} vectors; a directory holds {most}: build several, with `like`")


def take_rows(work: Work, rows: slice, numbers: NDArray[np.intp] | None) -> FloatArray:
    """Return the rows of the sample that lie in a range of rows."""
    source: Source = ray.get(work.source)
    wanted = np.arange(rows.start, rows.stop) if numbers is None else numbers
    return source.take(wanted, rows.start, rows.stop)


def encode_rows(work: Work, rows: slice, ids: Ids | None) -> Encoded:
    """Encode a range of vectors into a file of rows."""
    source, trained, asked = ray.get([work.source, work.trained, work.asked])
    return encode_part(work.directory, source, rows, ids, trained, asked)


def merge_rows(frame: Any, trained: Any, entries: list[FileEntry], lists: slice) -> Written:
    """Write a range of lists to the merged segment."""
    return write_lists(frame, trained, entries, lists)


def read_column(source: Any, piece: int, name: str) -> Any:
    """Return all values of a column of one piece of the source."""
    return source.pieces[piece].column(name)


def columns_of(source: Source, name: str) -> Any:
    """Return a column of all pieces of the source, concatenated."""
    shared = ray.put(source)
    tasks = [partial(column_task.remote, shared, piece, name) for piece in range(len(source.pieces))]
    parts: list[Any] = []
    for part in in_order(tasks):
        parts += part.chunks if hasattr(part, "chunks") else [part]
    return arrow().chunked_array(parts)


def learned_from(like: str | os.PathLike[str]) -> Learn:
    """Return a function that gives the training and the recall curve of an existing index."""
    index = open_index(like)
    no_queries = TuningQueries(
        np.empty((0, state_of(index).snapshot.trained.dimensions)), np.empty(0, np.int64), "given"
    )
    return lambda stream: (index, no_queries)


def given_ids(source: Source, ids: Any, id_column: str | None) -> Any:
    """Return the given ids, or the ids of a column."""
    if ids is not None and id_column is not None:
        raise ValueError(f"ids are given, and id_column is {id_column!r}: give one of them")
    return ids if id_column is None else values_of(columns_of(source, id_column), id_column)


def given_attributes(source: Source, attributes: Any) -> Any:
    """Return the given table, or a table of the named columns."""
    named = isinstance(attributes, (list, tuple)) and all(isinstance(name, str) for name in attributes)
    if not named or not attributes:
        return attributes
    return arrow().table({name: columns_of(source, name) for name in attributes})


# The functions above as Ray tasks.
take_task = ray.remote(max_retries=RETRIES)(take_rows)
encode_task = ray.remote(max_retries=RETRIES)(encode_rows)
merge_task = ray.remote(max_retries=RETRIES)(merge_rows)
column_task = ray.remote(max_retries=RETRIES)(read_column)
