"""A LlamaIndex vector store: nodes and their embeddings in an index, in memory or in a directory."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pcpq.index import Index
from pcpq.integrations import conditions
from pcpq.integrations.documents import Documents, DocumentStore, Row, is_free, relevance_of
from pcpq.search.where import WhereLimits

try:
    from fsspec import AbstractFileSystem
    from fsspec.implementations.local import LocalFileSystem
    from llama_index.core.bridge.pydantic import BaseModel, PrivateAttr
    from llama_index.core.schema import BaseNode, MetadataMode, TextNode
    from llama_index.core.vector_stores.simple import DEFAULT_VECTOR_STORE, NAMESPACE_SEP
    from llama_index.core.vector_stores.types import (
        DEFAULT_PERSIST_DIR,
        DEFAULT_PERSIST_FNAME,
        BasePydanticVectorStore,
        FilterCondition,
        FilterOperator,
        MetadataFilter,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
except ImportError as error:
    raise ImportError("the LlamaIndex store needs llama-index-core: pip install 'pcpq[llama-index]'") from error

# Keys of LlamaIndex's metadata: JSON of the node, its class, and the id of its document.
CONTENT, KIND, SOURCE = "_node_content", "_node_type", "ref_doc_id"
# Defaults of MMR: number of candidates per result, and weight of similarity against diversity.
CANDIDATES = 4.0
BALANCE = 0.5


class PCPQVectorStore(DocumentStore, BasePydanticVectorStore):
    """A vector store of nodes with text, metadata and embeddings.

    Parameters
    ----------
    path : a directory, created if it does not exist; every change is committed to it. None: in memory
    metric : "cosine", "dot" or "euclidean"; None: the metric of the directory, "cosine" if it is new
    keep : precision of the kept vectors: "int8", "int16", "float16" or "float32"; None: the precision of the
        directory, "int16" if it is new
    mode : "a": read and write; one process at a time. "r": read what another process writes, see `refresh`
    where_limits : limits of time, memory and threads for filters and conditions; None: pcpq.WhereLimits()

    Up to 2,000 nodes are all compared with a query. A larger store trains its lists again whenever the number
    of nodes has doubled.
    """

    stores_text: bool = True
    path: str | None = None
    metric: str | None = None
    keep: str | None = None
    mode: str = "a"
    _documents: Documents = PrivateAttr()

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        metric: str | None = None,
        keep: str | None = None,
        mode: str = "a",
        where_limits: WhereLimits | None = None,
        **kwargs: Any,
    ) -> None:
        documents = Documents(path, metric=metric, keep=keep, mode=mode, where_limits=where_limits)
        kwargs |= {"path": None if path is None else os.fspath(path), "mode": mode}
        kwargs |= {"metric": documents.metric, "keep": documents.keep}
        super().__init__(**kwargs)
        self._documents = documents

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled store in memory, with its nodes, which LlamaIndex's own method leaves out."""
        own = state["__dict__"] | {"path": None, "mode": "a"}
        BaseModel.__setstate__(self, state | {"__dict__": own})

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in files that LlamaIndex writes."""
        return "PCPQVectorStore"

    @classmethod
    def from_persist_path(
        cls, persist_path: str, fs: AbstractFileSystem | None = None, **kwargs: Any
    ) -> PCPQVectorStore:
        """Open a store by its path. Later changes are committed to this path."""
        require_local(fs)
        if not os.path.isdir(persist_path):
            raise FileNotFoundError(f"{persist_path} does not exist")
        return cls(persist_path, **kwargs)

    @classmethod
    def from_persist_dir(
        cls,
        persist_dir: str = DEFAULT_PERSIST_DIR,
        namespace: str = DEFAULT_VECTOR_STORE,
        fs: AbstractFileSystem | None = None,
        **kwargs: Any,
    ) -> PCPQVectorStore:
        """Open the store in the directory of a persisted storage context."""
        name = f"{namespace}{NAMESPACE_SEP}{DEFAULT_PERSIST_FNAME}"
        return cls.from_persist_path(os.path.join(persist_dir, name), fs, **kwargs)

    @property
    def client(self) -> Index | None:
        """The pcpq.Index of the store, None until a node is added. Change it only through the store."""
        return self._documents.index

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes with their embeddings, or replace those with the same ids. Returns the ids."""
        metadata = [node_to_metadata_dict(node, remove_text=True) for node in nodes]
        content = [one.pop(CONTENT) for one in metadata]
        ids, texts = [node.node_id for node in nodes], [text_of(node) for node in nodes]
        self._documents.put(ids, [node.get_embedding() for node in nodes], texts, metadata, content)
        return ids

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes, or replace those with the same ids, asynchronously. Returns the ids."""
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete all nodes of a document."""
        self._documents.remove_where([conditions.among(SOURCE, [ref_doc_id])])

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete all nodes of a document, asynchronously."""
        await asyncio.to_thread(self.delete, ref_doc_id, **delete_kwargs)

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete nodes by ids, by filters, or by both."""
        wanted = conditions_of(filters)
        if node_ids is None and not wanted:
            raise ValueError("delete_nodes needs ids or filters; clear removes everything")
        self._documents.remove_where(wanted, ids=node_ids)

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete nodes by ids, by filters, or by both, asynchronously."""
        await asyncio.to_thread(self.delete_nodes, node_ids, filters, **delete_kwargs)

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes in the order of ids, without ids that do not exist; or all nodes that match filters."""
        wanted = conditions_of(filters)
        ids = node_ids
        if ids is None or wanted:
            matching_ids = self._documents.ids_where(wanted, ids=node_ids)
            matches = set(matching_ids)
            ids = matching_ids if node_ids is None else [i for i in node_ids if i in matches]
        return [node_of(row) for row in self._documents.rows(ids)]

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes by ids or filters, asynchronously."""
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    def clear(self) -> None:
        """Delete all nodes."""
        self._documents.remove_where()

    async def aclear(self) -> None:
        """Delete all nodes, asynchronously."""
        await asyncio.to_thread(self.clear)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nodes nearest to the embedding of a query; in MMR mode, nodes that differ from each other.

        Parameters
        ----------
        query : a VectorStoreQuery; a node must match all of its filters, doc_ids and node_ids that are given
        kwargs : `where`, an SQL condition; `mmr_threshold`, from 0 (diversity only) to 1 (similarity only);
            `mmr_prefetch_factor` or `mmr_prefetch_k`, the number of nodes that MMR chooses from; and options of
            Index.search

        Similarities are cosines or inner products; with "euclidean", 1 / (1 + distance).
        """
        if query.query_embedding is None:
            raise ValueError("the query has no embedding")
        wanted = conditions_of(query.filters)
        if query.doc_ids is not None:
            wanted.append(conditions.among(SOURCE, query.doc_ids))
        # LlamaIndex gives an empty list of node ids if the store has the texts: it means all nodes.
        kwargs |= {"conditions": wanted, "ids": query.node_ids or None}
        embedding, k = query.query_embedding, query.similarity_top_k
        if query.mode == VectorStoreQueryMode.MMR:
            balance, candidates = mmr_options(query, kwargs)
            found = self._documents.find_diverse(embedding, k, candidates, balance, **kwargs)
        elif query.mode == VectorStoreQueryMode.DEFAULT:
            found = self._documents.find(embedding, k, **kwargs)
        else:
            raise ValueError(f"the mode of the query is {query.mode.value!r}; expected 'default' or 'mmr'")
        metric = self._documents.metric
        similarity: Callable[[float], float] = relevance_of(metric) if metric == "euclidean" else float
        return VectorStoreQueryResult(
            nodes=[node_of(row) for row, _ in found],
            similarities=[similarity(score) for _, score in found],
            ids=[row.id for row, _ in found],
        )

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nodes nearest to the embedding of a query, asynchronously."""
        return await asyncio.to_thread(self.query, query, **kwargs)

    def persist(self, persist_path: str, fs: AbstractFileSystem | None = None) -> None:
        """Write a copy of the store to a directory. A store with a path is stored already."""
        require_local(fs)
        path = Path(persist_path)
        if self._documents.index is not None:
            self._documents.save(path)
        elif is_free(path):
            path.mkdir(parents=True, exist_ok=True)  # an empty directory opens as an empty store
        else:
            raise FileExistsError(f"{path} holds nodes, and this store is empty")


def text_of(node: BaseNode) -> str:
    """Return the text of a node without its metadata."""
    return node.get_content(metadata_mode=MetadataMode.NONE) or ""


def node_of(row: Row) -> BaseNode:
    """Return a stored row as a node; a row that was not stored by LlamaIndex becomes a TextNode."""
    metadata = json.loads(row.metadata)
    if row.node is None:
        return TextNode(id_=row.id, text=row.text, metadata=metadata)
    # Some classes of nodes without text have no field for a text.
    return metadata_dict_to_node({CONTENT: row.node, KIND: metadata.get(KIND)}, text=row.text or None)


def require_local(fs: AbstractFileSystem | None) -> None:
    """Raise a ValueError unless a file system is local, because indexes are memory-mapped."""
    if fs is not None and not isinstance(fs, LocalFileSystem):
        raise ValueError(f"the file system is {type(fs).__name__}; an index is stored in a local directory")


def mmr_options(query: VectorStoreQuery, options: dict[str, Any]) -> tuple[float, int]:
    """Return the weight of similarity and the number of candidates; remove them from the options of a query."""
    balance = options.pop("mmr_threshold", query.mmr_threshold)
    factor, candidates = options.pop("mmr_prefetch_factor", None), options.pop("mmr_prefetch_k", None)
    if factor is not None and candidates is not None:
        given = f"mmr_prefetch_factor is {factor} and mmr_prefetch_k is {candidates}"
        raise ValueError(f"{given}; give one of them")
    if candidates is None:
        candidates = round(query.similarity_top_k * (CANDIDATES if factor is None else factor))
    return BALANCE if balance is None else balance, candidates


def conditions_of(filters: MetadataFilters | None) -> list[str]:
    """Return the SQL condition of filters in a list, which is empty if there are no filters."""
    return [condition_of(filters)] if filters is not None and filters.filters else []


def condition_of(filters: MetadataFilters) -> str:
    """Return one SQL condition for filters, which may be nested."""
    parts = [
        condition_of(one) if isinstance(one, MetadataFilters) else OPERATORS[one.operator](one)
        for one in filters.filters
    ]
    if filters.condition in (None, FilterCondition.AND):
        return conditions.both(parts)
    any_part = conditions.either(parts)
    return any_part if filters.condition == FilterCondition.OR else conditions.negated(any_part)


def list_value(one: MetadataFilter) -> list[Any]:
    """Return the value of a filter that must be a list; raise a TypeError otherwise."""
    if not isinstance(one.value, list):
        raise TypeError(f"{one.key!r} {one.operator.value} has {one.value!r}; expected a list")
    return one.value


def ordered(one: MetadataFilter) -> str:
    """Return the condition of a comparison; LlamaIndex writes its operators as in SQL."""
    return conditions.ordered(one.key, one.operator.value, one.value)


def matching(one: MetadataFilter) -> str:
    """Return the condition of a text match."""
    ignore_case = one.operator == FilterOperator.TEXT_MATCH_INSENSITIVE
    return conditions.matching(one.key, one.value, ignore_case=ignore_case)


OPERATORS: dict[FilterOperator, Callable[[MetadataFilter], str]] = {
    FilterOperator.EQ: lambda one: conditions.among(one.key, [one.value]),
    FilterOperator.NE: lambda one: conditions.negated(conditions.among(one.key, [one.value])),
    FilterOperator.GT: ordered,
    FilterOperator.GTE: ordered,
    FilterOperator.LT: ordered,
    FilterOperator.LTE: ordered,
    FilterOperator.IN: lambda one: conditions.among(one.key, list_value(one)),
    FilterOperator.NIN: lambda one: conditions.negated(conditions.among(one.key, list_value(one))),
    FilterOperator.ANY: lambda one: conditions.containing_any(one.key, list_value(one)),
    FilterOperator.ALL: lambda one: conditions.containing_all(one.key, list_value(one)),
    FilterOperator.CONTAINS: lambda one: conditions.containing_any(one.key, [one.value]),
    FilterOperator.TEXT_MATCH: matching,
    FilterOperator.TEXT_MATCH_INSENSITIVE: matching,
    FilterOperator.IS_EMPTY: lambda one: conditions.empty(one.key),
}
