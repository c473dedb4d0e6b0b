"""Documents: vectors with texts and metadata as attributes, all in one index, so that a commit is atomic."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pcpq.building import open_index
from pcpq.errors import LockedError
from pcpq.index import Index
from pcpq.integrations.conditions import METADATA, both
from pcpq.integrations.metadata import NODE, TEXT, columns_there, table_of, with_null_columns
from pcpq.io.arrays import Float32Array
from pcpq.search.condition import refusal
from pcpq.search.recall_curve import FEW
from pcpq.search.where import WhereLimits, checked_limits, duck, refuse_text
from pcpq.segment.attributes import arrow
from pcpq.store.manifest import MANIFEST, is_index_file

# Lists are trained again when the number of documents has grown by this factor since the last training.
GROWN = 2

Store = TypeVar("Store", bound="DocumentStore")


class Row(NamedTuple):
    """Stored form of a document."""

    id: str
    text: str
    metadata: str  # JSON
    node: str | None  # JSON of a LlamaIndex node, without its text


class Documents:
    """Documents in memory, or in a directory. Only one process at a time can write to a directory.

    Parameters
    ----------
    path : a directory; None: in memory
    metric, keep : parameters of Index; None: those of the directory, "cosine" and "int16" if it is new
    mode : "a": read and write; the directory is created if it does not exist, and every change is committed.
        "r": read what another process writes
    where_limits : limits of time, memory and threads for conditions on metadata; None: pcpq.WhereLimits()

    Up to 2,000 documents are all compared with a query. With more documents, the lists are trained again
    whenever the number of documents has doubled since the last training. Searches continue meanwhile.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        metric: str | None = None,
        keep: str | None = None,
        mode: str = "a",
        where_limits: WhereLimits | None = None,
    ) -> None:
        require_attributes()
        if mode not in ("r", "a") or (mode == "r" and path is None):
            raise ValueError(f"mode is {mode!r} and path is {path!r}; expected mode 'a', or 'r' and a path")
        self.path, self.mode = None if path is None else Path(path), mode
        self.where_limits = checked_limits(where_limits)
        self.metric, self.keep = metric or "cosine", keep or "int16"
        Index(metric=self.metric, keep=self.keep)  # raises an error for an unknown metric or precision
        self.index: Index | None = None  # None until there are documents to train on
        self._columns: dict[str, type] = {}  # keys of the metadata that are columns, and their types
        self._learned_from = 0
        self._closed = False
        self._writing = threading.RLock()
        if self.path is not None and (mode == "r" or not is_free(self.path)):
            self._take(open_index(self.path, mode), metric, keep)

    def _take(self, index: Index, metric: str | None, keep: str | None) -> None:
        """Use an opened index, or close it and raise a ValueError if it differs from the given parameters."""
        try:
            for name, wanted in (("metric", metric), ("keep", keep)):
                if wanted not in (None, stored := getattr(index, name)):
                    raise ValueError(f"{name} is {wanted!r}, but {self.path} has {stored!r}")
            if index.keep is None:
                raise ValueError(f"{self.path} keeps no vectors; a store trains its lists on them")
            self._columns = columns_there(index, self.path)
        except BaseException:
            index.close()
            raise
        self.index, self.metric, self.keep = index, index.metric, index.keep
        # As in default_lists.
        self._learned_from = int((index.stats()["lists"] / 2) ** 2)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a pickle or copy, which is in memory and independent of the directory."""
        with self._writing:
            self._refuse_closed()
            kept = {name: value for name, value in vars(self).items() if name != "_writing"}
            return kept | {"path": None, "mode": "a"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled store with a new lock."""
        vars(self).update(state)
        self._writing = threading.RLock()

    def __len__(self) -> int:
        return 0 if self.index is None else len(self.index)

    def put(
        self,
        ids: Sequence[str],
        vectors: Any,
        texts: Sequence[str],
        metadata: Sequence[Mapping[str, Any]],
        nodes: Sequence[str] | None = None,
    ) -> None:
        """Add documents, or replace those with the same ids. Of an id given twice, the last document counts."""
        if not len(ids) == len(vectors) == len(texts) == len(metadata):
            counts = f"{len(ids)} ids, {len(vectors)} vectors, {len(texts)} texts, {len(metadata)} metadata"
            raise ValueError(f"{counts}; expected one of each per document")
        if not ids:
            return
        last = sorted({some_id: position for position, some_id in enumerate(ids)}.values())

        def select(column: Sequence[Any]) -> list[Any]:
            return [column[position] for position in last]

        new_ids, new_vectors = select(ids), np.asarray(vectors)[last]
        new_nodes = None if nodes is None else select(nodes)
        with self._writing:
            self._refuse_readers()
            columns = dict(self._columns) if len(self) else {}
            table = table_of(new_ids, select(texts), select(metadata), new_nodes, columns)
            if len(self) == 0:
                self._train_first(new_vectors, new_ids, table)
            else:
                index = self._existing_index()
                if any(some_id in index for some_id in new_ids):
                    table = with_null_columns(table, columns)  # keys that a document no longer has
                index.upsert(new_vectors, new_ids, attributes=table)
            self._columns = columns  # before the commit: if it fails, the index in memory still has them
            self._commit()
            self._retrain_if_grown()

    def _train_first(self, vectors: NDArray[Any], ids: list[str], table: Any) -> None:
        """Train an index on the first documents, also if the store was emptied before, and add them."""
        index = Index(metric=self.metric, keep=self.keep) if self.index is None else self.index
        index.fit(vectors).add(vectors, ids, attributes=table)
        if len(index) > FEW:
            index.tune()
        self._learned_from = len(index)
        if self.index is None and self.path is not None:
            if not is_free(self.path):
                raise LockedError(f"{self.path} was created by another process after this store was opened")
            index.save(self.path)
            index = open_index(self.path, "a")
        self.index = index

    def _retrain_if_grown(self) -> None:
        n = len(self)
        if n > FEW and (self._learned_from <= FEW or n >= GROWN * self._learned_from):
            self._existing_index().refit().result()
            self._learned_from = n
            self._commit()

    def _commit(self) -> None:
        if self.path is not None:
            self._existing_index().commit()

    def _existing_index(self) -> Index:
        if self.index is None:
            raise ValueError("there are no documents yet")
        return self.index

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ValueError(f"this store is closed; open {self.path} again")

    def _refuse_readers(self) -> None:
        self._refuse_closed()
        if self.mode == "r":
            raise ValueError(f"{self.path} is open for reading only; open it with mode='a'")

    def remove(self, ids: Sequence[str]) -> int:
        """Remove documents by ids; return how many existed."""
        with self._writing:
            self._refuse_readers()
            if self.index is None or not ids:
                return 0
            removed = self.index.remove(list(ids))
            if removed:
                self._commit()
            return removed

    def remove_where(
        self, conditions: Iterable[str] = (), where: str | None = None, ids: Sequence[str] | None = None
    ) -> int:
        """Remove the documents that match all conditions, among `ids` if given; return their number."""
        with self._writing:
            return self.remove(self.ids_where(conditions, where, ids))

    def find(
        self,
        query: Any,
        k: int,
        *,
        conditions: Iterable[str] = (),
        where: str | None = None,
        ids: Sequence[str] | None = None,
        **options: Any,
    ) -> list[tuple[Row, float]]:
        """Return the k best documents and their scores, best first.

        Parameters
        ----------
        conditions : SQL conditions from pcpq.integrations.conditions; a document must match all of them
        where : a further condition in SQL, written by the user
        ids : ids to search among; None: all documents
        options : options of Index.search
        """
        self._refuse_closed()
        options = {"where_limits": self.where_limits} | options
        index, condition = self.index, joined_condition(conditions, where, options["where_limits"])
        if index is None:
            return []
        if isinstance(k, int):
            k = min(k, max(len(index), 1))  # otherwise the index would pad its results to k
        scores, found = index.search(np.asarray(query), k, filter=ids, where=condition, **options)
        score_of = {i: float(score) for i, score in zip(found, scores, strict=True) if isinstance(i, str)}
        return [(row, score_of[row.id]) for row in self.rows(list(score_of))]

    def find_diverse(
        self, query: Any, k: int, candidates: int, balance: float, **options: Any
    ) -> list[tuple[Row, float]]:
        """Return k of the best candidates that are like the query and unlike each other; see `diverse`."""
        if not 0 <= balance <= 1:
            raise ValueError(f"the balance of relevance and diversity is {balance!r}; expected 0 to 1")
        found = {row.id: (row, score) for row, score in self.find(query, max(k, candidates), **options)}
        if not found:
            return []
        index = self._existing_index()
        ids, vectors = get_existing(index, list(found), index.reconstruct)
        return [found[ids[row]] for row in diverse(np.asarray(query), vectors, k, balance)] if ids else []

    def rows(self, ids: Iterable[str]) -> list[Row]:
        """Return documents in the order of ids, each once. Ids that do not exist are left out."""
        self._refuse_closed()
        index = self.index
        if index is None:
            return []
        found, table = get_existing(index, list(dict.fromkeys(ids)), index.get)
        if not found:
            return []
        nodes = table[NODE].to_pylist() if NODE in table.column_names else [None] * len(found)
        columns = (found, table[TEXT].to_pylist(), table[METADATA].to_pylist(), nodes)
        return [Row(*parts) for parts in zip(*columns, strict=True)]

    def ids_where(
        self, conditions: Iterable[str] = (), where: str | None = None, ids: Sequence[str] | None = None
    ) -> list[str]:
        """Return the ids of the documents that match all conditions, among `ids` if given."""
        self._refuse_closed()
        index, condition = self.index, joined_condition(conditions, where, self.where_limits)
        if index is None or len(index) == 0:
            return []
        # With k = the number of documents, any query returns every document that matches.
        query = np.ones(index.stats()["dimensions"], np.float32)
        limits = self.where_limits
        found = index.search(query, len(index), filter=ids, where=condition, where_limits=limits).ids
        return [some_id for some_id in found if isinstance(some_id, str)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a copy to a directory. Nothing is written to the store's own directory, which is up to date."""
        if self.path is None or self.path.resolve() != Path(path).resolve():
            self._existing_index().save(path)

    def refresh(self) -> bool:
        """Load what the writing process has committed; return whether there was anything new. For mode "r"."""
        return self._existing_index().refresh()

    def close(self) -> None:
        """Close the directory, so that another process can write to it. A store in memory stays usable."""
        with self._writing:
            if self.path is not None:
                self._closed = True
                if self.index is not None:
                    self.index.close()


class DocumentStore:
    """Methods that the stores of LangChain and LlamaIndex have in common."""

    _documents: Documents

    def refresh(self) -> bool:
        """Load what the writing process has committed; returns whether there was anything new. For mode "r"."""
        return self._documents.refresh()

    def close(self) -> None:
        """Close the store, so that another process can write to the directory."""
        self._documents.close()

    def __enter__(self: Store) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def require_attributes() -> None:
    """Raise an ImportError that names the extra to install, unless pyarrow and duckdb are installed."""
    arrow()
    duck()


def is_free(path: Path) -> bool:
    """Return whether no index exists at a path; raise a FileExistsError if other files are there."""
    if not path.exists():
        return True
    if not path.is_dir():
        raise FileExistsError(f"{path} is not a directory; an index is stored in a directory")
    names = {entry.name for entry in path.iterdir()}
    other_files = sorted(name for name in names if not is_index_file(name))
    if other_files and MANIFEST not in names:
        raise FileExistsError(f"{path} is not an index: it holds {other_files[0]}")
    return MANIFEST not in names


def joined_condition(conditions: Iterable[str], where: str | None, limits: WhereLimits | None) -> str | None:
    """Return one SQL condition that holds if all of them hold; None if there are none."""
    found = list(conditions)
    if where is None or not found:
        return both(found) if found else where
    require_expression(where, checked_limits(limits))
    return both([*found, f"({where}\n)"])  # the line break ends a comment at the end of `where`


def require_expression(where: str, limits: WhereLimits) -> None:
    """Raise a ValueError unless `where` is a complete SQL expression before parentheses are put around it."""
    duckdb = duck()
    refuse_text(where, limits)
    try:
        duckdb.SQLExpression(where)
    except duckdb.Error as error:
        raise refusal(where, str(error).splitlines()[0]) from error


def get_existing(index: Index, ids: list[str], get: Callable[[Any], Any]) -> tuple[list[str], Any]:
    """Return the ids that exist and `get` of them; retry if other threads remove some of them meanwhile."""
    while found := [some_id for some_id in ids if some_id in index]:
        try:
            return found, get(found)
        except KeyError:
            continue
    return [], None


def diverse(query: NDArray[Any], vectors: Float32Array, k: int, balance: float) -> list[int]:
    """Return k row numbers by maximal marginal relevance, the row nearest to the query first.

    The value of a row is `balance` times its cosine with the query, minus 1 - `balance` times its largest
    cosine with the rows chosen so far.
    """
    unit, (unit_query,) = unit_rows(vectors), unit_rows(query[None])
    relevance = unit @ unit_query
    chosen = [int(np.argmax(relevance))]
    similarity = unit @ unit[chosen[0]]
    while len(chosen) < min(k, len(vectors)):
        value = balance * relevance - (1 - balance) * similarity
        value[chosen] = -np.inf
        chosen.append(int(np.argmax(value)))
        similarity = np.maximum(similarity, unit @ unit[chosen[-1]])
    return chosen


def unit_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return rows scaled to length 1; zero rows stay zero."""
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def relevance_of(metric: str) -> Callable[[float], float]:
    """Return a function from the scores of a metric to relevances from 0 to 1, where larger is better."""
    if metric == "cosine":
        return lambda score: min(max(score, 0.0), 1.0)
    if metric == "euclidean":
        return lambda score: 1 / (1 + math.sqrt(score))
    return lambda score: 0.5 * (1 + math.tanh(score / 2))
