"""Documents: texts and metadata as attributes of the vectors of one index: a commit has all or nothing."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcpq.building import open_index
from pcpq.errors import LockedError
from pcpq.index import Index
from pcpq.integrations.conditions import METADATA, both
from pcpq.integrations.metadata import NODE, TEXT, columns_there, table_of
from pcpq.io.arrays import Float32Array
from pcpq.search.condition import refusal
from pcpq.search.recall_curve import FEW
from pcpq.search.where import WhereLimits, checked_limits, duck, refuse_text
from pcpq.segment.attributes import arrow
from pcpq.store.manifest import MANIFEST, is_ours

# So many times as many documents as lists were learned from, and they are learned anew.
GROWN = 2


class Row(NamedTuple):
    """A document as it is stored."""

    id: str
    text: str
    metadata: str  # JSON
    node: str | None


class Documents:
    """Documents in memory, or in a directory that one process at a time may write.

    Parameters
    ----------
    path : of the directory; None: in memory
    metric, keep : as in Index; None: what the directory has, or "cosine" and "int16"
    mode : "a": the directory is made if it is not there, and every change is committed. "r": others write it
    where_limits : what conditions on metadata may take; None: pcpq.WhereLimits()

    Up to 2,000 documents are all compared with a query. With more, lists are learned anew whenever there are
    twice as many documents as they were learned from; searches go on meanwhile.
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
        Index(metric=self.metric, keep=self.keep)  # refuses what is none
        self.index: Index | None = None  # until there is a document to learn from
        self._columns: dict[str, type] = {}  # keys of the metadata, and what they hold
        self._learned_from = 0
        self._closed = False
        self._writing = threading.RLock()
        if self.path is not None and (mode == "r" or not is_free(self.path)):
            self._take(open_index(self.path, mode), metric, keep)

    def _take(self, index: Index, metric: str | None, keep: str | None) -> None:
        """An index that was opened, unless it is not what was asked for."""
        try:
            for name, wanted in (("metric", metric), ("keep", keep)):
                if wanted not in (None, there := getattr(index, name)):
                    raise ValueError(f"{name} is {wanted!r}, but {self.path} has {there!r}")
            if index.keep is None:
                raise ValueError(f"{self.path} keeps no vectors: there is nothing to learn from as it grows")
            self._columns = columns_there(index, self.path)
        except BaseException:
            index.close()
            raise
        self.index, self.metric, self.keep = index, index.metric, index.keep
        self._learned_from = int((index.stats()["lists"] / 2) ** 2)  # see fitting.default_lists

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies, which are in memory and go their own ways."""
        with self._writing:
            self._refuse_closed()
            kept = {name: value for name, value in vars(self).items() if name != "_writing"}
            return kept | {"path": None, "mode": "a"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """With a lock of its own."""
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
        """Add documents, or replace those of the same ids; of an id that is given twice the last counts."""
        if not len(ids) == len(vectors) == len(texts) == len(metadata):
            counts = f"{len(ids)} ids, {len(vectors)} vectors, {len(texts)} texts, {len(metadata)} metadata"
            raise ValueError(f"{counts}; expected one of each a document")
        if not ids:
            return
        last = sorted({some_id: place for place, some_id in enumerate(ids)}.values())

        def taken(column: Sequence[Any]) -> list[Any]:
            return [column[place] for place in last]

        own_ids, own_vectors = taken(ids), np.asarray(vectors)[last]
        own_nodes = None if nodes is None else taken(nodes)
        with self._writing:
            self._refuse_readers()
            columns = dict(self._columns) if len(self) else {}
            table = table_of(own_ids, taken(texts), taken(metadata), own_nodes, columns)
            if len(self) == 0:
                self._begin(own_vectors, own_ids, table)
            else:
                self._there().upsert(own_vectors, own_ids, attributes=table)
            self._columns = columns  # even if the disk is full now: in memory they are there
            self._commit()
            self._learn_again()

    def _begin(self, vectors: NDArray[Any], ids: list[str], table: Any) -> None:
        """Learn from the first documents: what was there before, if anything, may have been quite different."""
        index = Index(metric=self.metric, keep=self.keep) if self.index is None else self.index
        index.fit(vectors).add(vectors, ids, attributes=table)
        if len(index) > FEW:
            index.tune()
        self._learned_from = len(index)
        if self.index is None and self.path is not None:
            if not is_free(self.path):
                raise LockedError(f"{self.path} was made by somebody else after this store was opened")
            index.save(self.path)
            index = open_index(self.path, "a")
        self.index = index

    def _learn_again(self) -> None:
        n = len(self)
        if n > FEW and (self._learned_from <= FEW or n >= GROWN * self._learned_from):
            self._there().refit().result()
            self._learned_from = n
            self._commit()

    def _commit(self) -> None:
        if self.path is not None:
            self._there().commit()

    def _there(self) -> Index:
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
        """Remove documents; returns how many of them were there."""
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
        """Remove all documents, or of some, those that conditions hold for; returns how many there were."""
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
        """The k best documents and their scores, best first.

        Parameters
        ----------
        conditions : all of them must hold, as pcpq.integrations.conditions makes them
        where : one in the user's own SQL
        ids : documents that may be found
        options : of Index.search
        """
        self._refuse_closed()
        options = {"where_limits": self.where_limits} | options
        index, condition = self.index, together(conditions, where, options["where_limits"])
        if index is None:
            return []
        if isinstance(k, int):
            k = min(k, max(len(index), 1))  # a list of documents needs no filling up
        scores, found = index.search(np.asarray(query), k, filter=ids, where=condition, **options)
        score_of = {i: float(score) for i, score in zip(found, scores, strict=True) if isinstance(i, str)}
        return [(row, score_of[row.id]) for row in self.rows(list(score_of))]

    def find_diverse(
        self, query: Any, k: int, candidates: int, balance: float, **options: Any
    ) -> list[tuple[Row, float]]:
        """Of the best candidates, k that are like the query and unlike each other; see `diverse`."""
        if not 0 <= balance <= 1:
            raise ValueError(f"the balance of relevance and diversity is {balance!r}; expected 0 to 1")
        found = {row.id: (row, score) for row, score in self.find(query, max(k, candidates), **options)}
        if not found:
            return []
        index = self._there()
        ids, vectors = of_those_there(index, list(found), index.reconstruct)
        return [found[ids[place]] for place in diverse(np.asarray(query), vectors, k, balance)] if ids else []

    def rows(self, ids: Iterable[str]) -> list[Row]:
        """Documents by their ids, in that order, each once; those that are not there are left out."""
        self._refuse_closed()
        index = self.index
        if index is None:
            return []
        there, table = of_those_there(index, list(dict.fromkeys(ids)), index.get)
        if not there:
            return []
        nodes = table[NODE].to_pylist() if NODE in table.column_names else [None] * len(there)
        columns = (there, table[TEXT].to_pylist(), table[METADATA].to_pylist(), nodes)
        return [Row(*parts) for parts in zip(*columns, strict=True)]

    def ids_where(
        self, conditions: Iterable[str] = (), where: str | None = None, ids: Sequence[str] | None = None
    ) -> list[str]:
        """The ids of all documents, or of some, that conditions hold for."""
        self._refuse_closed()
        index, condition = self.index, together(conditions, where, self.where_limits)
        if index is None or len(index) == 0:
            return []
        # Any query finds all of them if it asks for as many as there are.
        query = np.ones(index.stats()["dimensions"], np.float32)
        limits = self.where_limits
        found = index.search(query, len(index), filter=ids, where=condition, where_limits=limits).ids
        return [some_id for some_id in found if isinstance(some_id, str)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a copy to a directory; to its own, there is nothing left to write."""
        if self.path is None or self.path.resolve() != Path(path).resolve():
            self._there().save(path)

    def refresh(self) -> bool:
        """See what the writer has committed since; only where mode is "r"."""
        return self._there().refresh()

    def close(self) -> None:
        """Let others write the directory; what is only in memory stays as it is."""
        with self._writing:
            if self.path is not None:
                self._closed = True
                if self.index is not None:
                    self.index.close()


def require_attributes() -> None:
    """An ImportError that says how to get what texts and conditions need."""
    arrow()
    duck()


def is_free(path: Path) -> bool:
    """Whether an index can be made there; a FileExistsError if something else is in the way."""
    if not path.exists():
        return True
    if not path.is_dir():
        raise FileExistsError(f"{path} is not a directory, as an index is")
    names = {entry.name for entry in path.iterdir()}
    strangers = sorted(name for name in names if not is_ours(name))
    if strangers and MANIFEST not in names:
        raise FileExistsError(f"{path} is not an index: it holds {strangers[0]}")
    return MANIFEST not in names


def together(conditions: Iterable[str], where: str | None, limits: WhereLimits | None) -> str | None:
    """All conditions as one; None for none."""
    found = list(conditions)
    if where is None or not found:
        return both(found) if found else where
    require_expression(where, checked_limits(limits))
    return both([*found, f"({where}\n)"])  # a comment ends with its line


def require_expression(where: str, limits: WhereLimits) -> None:
    """A ValueError unless it is an expression by itself: in parentheses, what is none might become one."""
    duckdb = duck()
    refuse_text(where, limits)
    try:
        duckdb.SQLExpression(where)
    except duckdb.Error as error:
        raise refusal(where, str(error).splitlines()[0]) from error


def of_those_there(index: Index, ids: list[str], get: Callable[[Any], Any]) -> tuple[list[str], Any]:
    """Ids that are there, and what there is of them, though others may remove some right now."""
    while there := [some_id for some_id in ids if some_id in index]:
        try:
            return there, get(there)
        except KeyError:
            continue
    return [], None


def diverse(query: NDArray[Any], vectors: Float32Array, k: int, balance: float) -> list[int]:
    """Rows by maximal marginal relevance: the nearest first, then the best by what is new in them.

    A row's worth is `balance` times its cosine with the query, less 1 - `balance` times the largest of those
    with the rows chosen before.
    """
    unit, (asked,) = unit_rows(vectors), unit_rows(query[None])
    relevance = unit @ asked
    chosen = [int(np.argmax(relevance))]
    likeness = unit @ unit[chosen[0]]
    while len(chosen) < min(k, len(vectors)):
        worth = balance * relevance - (1 - balance) * likeness
        worth[chosen] = -np.inf
        chosen.append(int(np.argmax(worth)))
        likeness = np.maximum(likeness, unit @ unit[chosen[-1]])
    return chosen


def unit_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Rows of length 1; zeros stay zeros."""
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def relevance_of(metric: str) -> Callable[[float], float]:
    """Scores of a metric as numbers from 0 to 1, the best largest."""
    if metric == "cosine":
        return lambda score: min(max(score, 0.0), 1.0)
    if metric == "euclidean":
        return lambda score: 1 / (1 + math.sqrt(score))
    return lambda score: 0.5 * (1 + math.tanh(score / 2))
