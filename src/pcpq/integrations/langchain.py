"""A LangChain vector store: documents and their embeddings in an index, in memory or in a directory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from pcpq.index import Index
from pcpq.integrations import conditions
from pcpq.integrations.documents import Documents, DocumentStore, Row, relevance_of
from pcpq.search.where import WhereLimits

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.runnables.config import run_in_executor
    from langchain_core.vectorstores import VectorStore
except ImportError as error:
    raise ImportError("the LangChain store needs langchain-core: pip install 'pcpq[langchain]'") from error

Filter = Mapping[str, Any]
Scored = list[tuple[Document, float]]


class PCPQVectorStore(DocumentStore, VectorStore):
    """A vector store of documents with text, metadata and embeddings.

    Parameters
    ----------
    embedding : LangChain embeddings, which turn texts into vectors
    path : a directory, created if it does not exist; every change is committed to it. None: in memory
    metric : "cosine", "dot" or "euclidean"; None: the metric of the directory, "cosine" if it is new
    keep : precision of the kept vectors: "int8", "int16", "float16" or "float32"; None: the precision of the
        directory, "int16" if it is new
    mode : "a": read and write; one process at a time. "r": read what another process writes, see `refresh`
    where_limits : limits of time, memory and threads for filters and conditions; None: pcpq.WhereLimits()
    relevance_score_fn : function from scores to relevances between 0 and 1; None: depends on the metric

    Searches accept `filter`, a dict such as {"year": {"$gt": 2020}, "lang": "en"}; `where`, an SQL condition on
    `text` and the keys of the metadata; and options of Index.search such as target_recall.

    Up to 2,000 documents are all compared with a query. A larger store trains its lists again whenever the
    number of documents has doubled.
    """

    def __init__(
        self,
        embedding: Embeddings,
        path: str | os.PathLike[str] | None = None,
        *,
        metric: str | None = None,
        keep: str | None = None,
        mode: str = "a",
        relevance_score_fn: Callable[[float], float] | None = None,
        where_limits: WhereLimits | None = None,
    ) -> None:
        self._embedding = embedding
        self._documents = Documents(path, metric=metric, keep=keep, mode=mode, where_limits=where_limits)
        self._relevance = relevance_score_fn

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], embedding: Embeddings, *, mode: str = "a", **kwargs: Any
    ) -> PCPQVectorStore:
        """Open an existing store; FileNotFoundError if there is none."""
        if not os.path.isdir(path):
            raise FileNotFoundError(f"{os.fspath(path)} does not exist")
        return cls(embedding, path, mode=mode, **kwargs)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> PCPQVectorStore:
        """Create a store and add texts to it. `kwargs` are parameters of the store."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> PCPQVectorStore:
        """Create a store and add texts to it, asynchronously."""
        store = await run_in_executor(None, cls, embedding, **kwargs)
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    @property
    def embeddings(self) -> Embeddings:
        """The embeddings, which turn texts into vectors."""
        return self._embedding

    @property
    def index(self) -> Index | None:
        """The pcpq.Index of the store, None until a document is added. Change it only through the store."""
        return self._documents.index

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, or replace those with the same ids. Texts without an id get a new one.

        Returns the ids.
        """
        new = new_texts(texts, metadatas, ids)
        if new.ids:
            new.put(self._documents, self._embedding.embed_documents(new.texts))
        return new.ids

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, or replace those with the same ids, asynchronously. Returns the ids."""
        new = new_texts(texts, metadatas, ids)
        if new.ids:
            embedded = await self._embedding.aembed_documents(new.texts)
            await run_in_executor(None, new.put, self._documents, embedded)
        return new.ids

    def delete(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Filter | None = None,
        where: str | None = None,
        **kwargs: Any,
    ) -> bool:
        """Delete documents by ids, or those that match a filter or a condition; without any, all documents."""
        if ids is None:
            self._documents.remove_where(conditions_of(filter), where)
        elif filter is None and where is None:
            self._documents.remove(list(ids))
        else:
            raise ValueError("delete takes ids, or a filter and a condition, but not both")
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents in the order of ids. Ids that do not exist are left out."""
        return [document_of(row) for row in self._documents.rows(ids)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k documents most similar to a text. For `kwargs` see the class."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k documents most similar to a text, asynchronously."""
        return [document for document, _ in await self.asimilarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Scored:
        """Return the k documents most similar to a text, with their scores.

        Scores are cosines or inner products, where larger is better, or squared distances, where smaller is
        better.
        """
        return self.similarity_search_with_score_by_vector(self._embedding.embed_query(query), k, **kwargs)

    async def asimilarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> Scored:
        """Return the k documents most similar to a text, with their scores, asynchronously."""
        embedded = await self._embedding.aembed_query(query)
        return await self.asimilarity_search_with_score_by_vector(embedded, k, **kwargs)

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k documents nearest to a vector."""
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, **kwargs)]

    def similarity_search_with_score_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        *,
        filter: Filter | None = None,
        where: str | None = None,
        **kwargs: Any,
    ) -> Scored:
        """Return the k documents nearest to a vector, with their scores."""
        found = self._documents.find(embedding, k, conditions=conditions_of(filter), where=where, **kwargs)
        return [(document_of(row), score) for row, score in found]

    async def asimilarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> Scored:
        """Return the k documents nearest to a vector, with their scores, asynchronously."""
        search = self.similarity_search_with_score_by_vector
        found: Scored = await run_in_executor(None, search, embedding, k, **kwargs)
        return found

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return k documents that are similar to a text and different from each other.

        They are chosen from the `fetch_k` most similar ones by maximal marginal relevance. `lambda_mult` ranges
        from 0 (diversity only) to 1 (similarity only).
        """
        embedded = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(embedded, k, fetch_k, lambda_mult, **kwargs)

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return k documents that are similar to a text and different from each other, asynchronously."""
        embedded = await self._embedding.aembed_query(query)
        return await self.amax_marginal_relevance_search_by_vector(embedded, k, fetch_k, lambda_mult, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return k documents that are near to a vector and different from each other."""
        wanted = conditions_of(filter)
        found = self._documents.find_diverse(embedding, k, fetch_k, lambda_mult, conditions=wanted, **kwargs)
        return [document_of(row) for row, _ in found]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return self._relevance or relevance_of(self._documents.metric)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a copy to a directory, which `load` opens. A store with a path is stored already."""
        self._documents.save(path)


class NewTexts:
    """Texts with ids and metadata, to be added as soon as their embeddings are computed."""

    def __init__(self, ids: list[str], texts: list[str], metadatas: list[dict[str, Any]]) -> None:
        self.ids, self.texts, self.metadatas = ids, texts, metadatas

    def put(self, documents: Documents, vectors: list[list[float]]) -> None:
        """Add the texts with their embeddings to documents."""
        documents.put(self.ids, vectors, self.texts, self.metadatas)


def new_texts(
    texts: Iterable[str], metadatas: Sequence[dict[str, Any] | None] | None, ids: Sequence[str | None] | None
) -> NewTexts:
    """Return texts with one id and metadata each; raise a ValueError if their numbers differ."""
    if isinstance(texts, str):
        raise TypeError(f"texts is {texts!r}; expected a list of texts")
    all_texts = list(texts)
    for name, given in (("metadatas", metadatas), ("ids", ids)):
        if given is not None and len(given) != len(all_texts):
            raise ValueError(f"{len(given)} {name} for {len(all_texts)} texts; expected one per text")
    all_ids = [str(uuid4()) if i is None else i for i in ids or [None] * len(all_texts)]
    return NewTexts(all_ids, all_texts, [one or {} for one in metadatas or [None] * len(all_texts)])


def document_of(row: Row) -> Document:
    """Return a stored document as a Document of LangChain."""
    return Document(id=row.id, page_content=row.text, metadata=json.loads(row.metadata))


def conditions_of(filter: Filter | None) -> list[str]:
    """Return the SQL conditions of a filter; a document must match all of them."""
    if filter is None:
        return []
    if not isinstance(filter, Mapping):
        raise TypeError(f"filter is {filter!r}; expected a dict such as {{'year': {{'$gt': 2020}}}}")
    return [condition_of(key, wanted) for key, wanted in filter.items()]


def condition_of(key: str, wanted: Any) -> str:
    """Return the SQL condition of one key of a filter, whose value is a value, operators or more filters."""
    if key in ("$and", "$or"):
        if not isinstance(wanted, Sequence) or isinstance(wanted, str):
            raise TypeError(f"{key} has {wanted!r}; expected a list of filters")
        parts = [conditions.both(conditions_of(one)) for one in wanted]
        return conditions.both(parts) if key == "$and" else conditions.either(parts)
    if key == "$not":
        return conditions.negated(conditions.both(conditions_of(wanted)))
    if isinstance(key, str) and key.startswith("$"):
        raise ValueError(f"a filter has the key {key!r}; expected a key of the metadata, $and, $or or $not")
    return conditions.both(comparisons(key, wanted))


def comparisons(key: conditions.Key, wanted: Any) -> Iterator[str]:
    """Yield the SQL conditions of a key, whose value is a value, operators, or the keys of a nested object."""
    if not isinstance(wanted, Mapping):
        yield conditions.among(key, [wanted])
        return
    shown = key if isinstance(key, str) else ".".join(key)
    operators = [name for name in wanted if isinstance(name, str) and name.startswith("$")]
    if not wanted or 0 < len(operators) < len(wanted):
        raise ValueError(f"{shown!r} has {wanted!r}; expected a value, operators alone, or nested keys alone")
    for name, value in wanted.items():
        if name in OPERATORS:
            yield OPERATORS[name](key, value)
        elif operators:
            raise ValueError(f"{shown!r} has the operator {name!r}; expected one of {', '.join(OPERATORS)}")
        else:
            yield from comparisons((*((key,) if isinstance(key, str) else key), name), value)


def existing(key: conditions.Key, value: Any) -> str:
    """Return a condition that holds if a key exists (value True) or is missing (value False)."""
    if not isinstance(value, bool):
        raise TypeError(f"$exists has {value!r}; expected True or False")
    return conditions.negated(conditions.missing(key)) if value else conditions.missing(key)


def as_list(values: Any, operator: str) -> list[Any]:
    """Return the values of an operator as a list; raise a TypeError if they are not a collection."""
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise TypeError(f"{operator} has {values!r}; expected a list")
    return list(values)


OPERATORS: dict[str, Callable[[conditions.Key, Any], str]] = {
    "$eq": lambda key, value: conditions.among(key, [value]),
    "$ne": lambda key, value: conditions.negated(conditions.among(key, [value])),
    "$gt": lambda key, value: conditions.ordered(key, ">", value),
    "$gte": lambda key, value: conditions.ordered(key, ">=", value),
    "$lt": lambda key, value: conditions.ordered(key, "<", value),
    "$lte": lambda key, value: conditions.ordered(key, "<=", value),
    "$in": lambda key, values: conditions.among(key, as_list(values, "$in")),
    "$nin": lambda key, values: conditions.negated(conditions.among(key, as_list(values, "$nin"))),
    "$exists": lambda key, value: existing(key, value),
    "$contains": lambda key, value: conditions.containing_any(key, [value]),
    "$like": lambda key, value: conditions.like(key, value),
    "$ilike": lambda key, value: conditions.like(key, value, ignore_case=True),
}
