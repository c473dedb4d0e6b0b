"""Nodes for LlamaIndex, and queries for them."""

from embedding import embed
from llama_index.core.schema import (
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from pcpq.integrations.llama_index import PCPQVectorStore

TEXTS = ["piano and violin music", "king and queen", "football match", "guitar music", "the royal family"]
METADATA = [
    {"kind": "music", "year": 2020, "tags": ["keys", "strings"]},
    {"kind": "people", "year": 1990.5, "tags": []},
    {"kind": "sport", "year": "2020"},
    {"kind": "music", "year": 2021, "tags": ["strings"]},
    {},
]
SOURCES = ["first", "first", "second", "second", None]
IDS = ["a", "b", "c", "d", "e"]


def nodes():
    return [
        TextNode(
            id_=some_id,
            text=text,
            metadata=metadata,
            embedding=embed(text).tolist(),
            relationships={} if source is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=source)},
            excluded_llm_metadata_keys=["year"],
        )
        for some_id, text, metadata, source in zip(IDS, TEXTS, METADATA, SOURCES, strict=True)
    ]


def filled_store():
    filled = PCPQVectorStore()
    assert filled.add(nodes()) == IDS
    return filled


def ask(text, k=10, **options):
    return VectorStoreQuery(query_embedding=embed(text).tolist(), similarity_top_k=k, **options)


def only(key, operator, value):
    return MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])
