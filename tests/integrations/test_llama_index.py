"""The LlamaIndex store: nodes in, out, found, deleted, stored."""

import asyncio
import pickle
import subprocess
import sys

import numpy as np
import pytest
from embedding import embed
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import (
    Document,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterOperator,
    MetadataFilters,
    VectorStore,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_nodes import IDS, METADATA, TEXTS, ask, filled_store, nodes, only

import pcpq
from pcpq.integrations.langchain import PCPQVectorStore as LangChainStore
from pcpq.integrations.llama_index import PCPQVectorStore


@pytest.fixture
def store():
    return filled_store()


class WordEmbedding(BaseEmbedding):
    def _get_text_embedding(self, text):
        return embed(text).tolist()

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return embed(query).tolist()


@pytest.fixture(params=["at once", "awaited"])
def call(request):
    """Calls a method, or awaits its asynchronous twin."""

    def run(store, name, *arguments, **options):
        if request.param == "at once":
            return getattr(store, name)(*arguments, **options)
        twin = "async_add" if name == "add" else "a" + name
        return asyncio.run(getattr(store, twin)(*arguments, **options))

    return run


def test_it_is_a_store_as_llama_index_has_them(store):
    assert isinstance(store, BasePydanticVectorStore)
    assert isinstance(store, VectorStore)
    assert store.stores_text
    assert store.is_embedding_query
    assert store.class_name() == "PCPQVectorStore"
    assert isinstance(store.client, pcpq.Index)
    assert store.to_dict()["metric"] == "cosine"


def test_nodes_come_back_whole_and_best_first(store, call):
    found = call(store, "query", ask("piano concert", 3))
    assert found.ids[0] == "a"
    assert set(found.ids[:2]) == {"a", "d"}
    assert found.similarities == sorted(found.similarities, reverse=True)
    vectors = np.array([embed(text) for text in TEXTS])
    cosines = vectors @ embed("piano concert") / np.linalg.norm(vectors, axis=1)
    cosines /= np.linalg.norm(embed("piano concert"))
    assert found.similarities == pytest.approx([cosines[IDS.index(i)] for i in found.ids], abs=1e-4)
    for node in found.nodes:
        (expected,) = [one for one in nodes() if one.node_id == node.node_id]
        expected.embedding = None
        assert node == expected


@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_similarities_are_larger_for_what_is_nearer(metric):
    store = PCPQVectorStore(metric=metric, keep="float32")
    store.add(nodes())
    query, vectors = embed("piano concert"), np.array([embed(text) for text in TEXTS])
    exact = vectors @ query if metric == "dot" else 1 / (1 + np.linalg.norm(vectors - query, axis=1))
    found = store.query(ask("piano concert", 5))
    assert found.ids == [IDS[place] for place in np.argsort(-exact)]
    assert found.similarities == pytest.approx(np.sort(exact)[::-1], abs=1e-5)


def test_an_empty_store_finds_nothing(call):
    store = PCPQVectorStore()
    found = call(store, "query", ask("music", filters=only("kind", FilterOperator.EQ, "music")))
    assert (found.ids, found.nodes, found.similarities) == ([], [], [])
    assert store.query(ask("music", mode=VectorStoreQueryMode.MMR)).ids == []
    assert call(store, "get_nodes") == call(store, "get_nodes", ["a"]) == []
    assert call(store, "add", []) == []
    call(store, "delete", "first")
    call(store, "delete_nodes", ["a"])
    call(store, "clear")
    assert store.client is None


def test_adding_a_known_id_replaces_the_node(store, call):
    call(store, "add", [TextNode(id_="a", text="new", embedding=embed("prince").tolist())])
    assert store.query(ask("prince", 1)).ids == ["a"]
    assert [(node.text, node.metadata) for node in store.get_nodes(["a"])] == [("new", {})]
    assert len(store.get_nodes()) == 5
    with pytest.raises(ValueError, match="embedding not set"):
        store.add([TextNode(text="without")])


def test_conditions_in_sql_and_search_options_are_passed_on(store):
    found = store.query(ask("music", filters=only("kind", FilterOperator.EQ, "music")), where="year > 2020")
    assert found.ids == ["d"]
    assert store.query(ask("music"), where="contains(text, 'queen')", target_recall=0.9).ids == ["b"]
    with pytest.raises(TypeError, match="no_such_option"):
        store.query(ask("music"), no_such_option=1)


def test_other_queries_are_refused(store):
    with pytest.raises(ValueError, match="the mode of the query is 'hybrid'; expected 'default' or 'mmr'"):
        store.query(ask("music", mode=VectorStoreQueryMode.HYBRID))
    with pytest.raises(ValueError, match="no embedding"):
        store.query(VectorStoreQuery(query_str="music"))


@pytest.mark.parametrize(
    ("threshold", "options", "expected"),
    [
        (0.0, {}, ["a", "c"]),
        (0.25, {}, ["a", "c"]),
        (1.0, {}, ["a", "b"]),
        (None, {}, ["a", "b"]),
        (1.0, {"mmr_threshold": 0.0}, ["a", "c"]),
        (0.0, {"mmr_threshold": 1.0}, ["a", "b"]),
        (0.0, {"mmr_prefetch_k": 2}, ["a", "b"]),
        (0.0, {"mmr_prefetch_factor": 1.0}, ["a", "b"]),
    ],
)
def test_diverse_results_follow_the_threshold(call, threshold, options, expected):
    store = PCPQVectorStore(keep="float32")
    vectors = {"a": [1.0, 0.0], "b": [1.0, 0.0], "c": [0.0, 1.0]}
    store.add([TextNode(id_=name, embedding=vector) for name, vector in vectors.items()])
    mode = VectorStoreQueryMode.MMR
    query = VectorStoreQuery([1.0, 0.0], 2, mode=mode, mmr_threshold=threshold)
    found = call(store, "query", query, **options)
    assert found.ids == expected
    assert found.similarities == pytest.approx([vectors[name][0] for name in expected])


def test_candidates_are_given_in_one_way(store):
    query = ask("music", mode=VectorStoreQueryMode.MMR)
    with pytest.raises(ValueError, match=r"mmr_prefetch_factor is 2.0 and mmr_prefetch_k is 3; give one"):
        store.query(query, mmr_prefetch_factor=2.0, mmr_prefetch_k=3)
    with pytest.raises(ValueError, match=r"is 2.0; expected 0 to 1"):
        store.query(query, mmr_threshold=2.0)


def test_nodes_are_got_by_ids_or_filters(store, call):
    def ids(*arguments, **options):
        return [node.node_id for node in call(store, "get_nodes", *arguments, **options)]

    music = only("kind", FilterOperator.EQ, "music")
    assert ids(["c", "missing", "a", "c"]) == ["c", "a"]
    assert sorted(ids(filters=music)) == ["a", "d"]
    assert ids(["d", "b", "a"], music) == ["d", "a"]
    assert ids([]) == []
    assert sorted(ids()) == IDS


def test_nodes_are_deleted_by_document_by_ids_or_by_filters(store, call):
    def left():
        return "".join(sorted(node.node_id for node in store.get_nodes()))

    call(store, "delete", "first")
    assert left() == "cde"
    call(store, "delete", "missing")
    call(store, "delete_nodes", ["c", "d"], only("kind", FilterOperator.EQ, "sport"))
    assert left() == "de"
    call(store, "delete_nodes", [])
    with pytest.raises(ValueError, match="clear removes everything"):
        call(store, "delete_nodes")
    with pytest.raises(ValueError, match="clear removes everything"):
        call(store, "delete_nodes", filters=MetadataFilters(filters=[]))
    assert left() == "de"
    call(store, "delete_nodes", filters=only("kind", FilterOperator.EQ, "music"))
    assert left() == "e"
    call(store, "clear")
    assert left() == ""
    call(store, "add", [TextNode(id_="z", text="other", embedding=[1.0, 2.0, 3.0])])
    assert store.query(VectorStoreQuery([1.0, 2.0, 3.0])).ids == ["z"]


def test_every_kind_of_node_comes_back(tmp_path):
    vector = embed("music").tolist()
    kinds = [
        TextNode(id_="text", text="", embedding=vector),
        IndexNode(id_="index", text="see there", index_id="there", embedding=vector),
        ImageNode(id_="image", text="a view", image_url="http://localhost/view.png", embedding=vector),
        Node(id_="node", text_resource=MediaResource(text="words"), embedding=vector),
        Node(id_="bare", image_resource=MediaResource(url="http://localhost/view.png"), embedding=vector),
    ]
    with PCPQVectorStore(tmp_path / "store") as store:
        store.add([*kinds, Document(id_="document", text="whole", embedding=vector, metadata={"n": 1})])
    with PCPQVectorStore(tmp_path / "store") as store:
        for node in kinds:
            (found,) = store.get_nodes([node.node_id])
            assert type(found) is type(node)
            node.embedding = None
            assert found == node
        (found,) = store.get_nodes(["document"])
        assert (found.get_content(), found.metadata) == ("whole", {"n": 1})


def test_a_store_in_a_directory_is_there_when_it_is_opened_again(tmp_path, call):
    path = tmp_path / "store"
    with PCPQVectorStore(path, metric="dot") as store:
        call(store, "add", nodes())
        call(store, "delete", "second")
        expected = store.query(ask("music"))
        with pytest.raises(pcpq.LockedError):
            PCPQVectorStore(path)
        reader = PCPQVectorStore(path, mode="r")
        call(store, "delete_nodes", ["e"])
        assert len(reader.get_nodes()) == 3
        assert reader.refresh()
        assert len(reader.get_nodes()) == 2
        with pytest.raises(ValueError, match="reading only"):
            call(reader, "add", nodes())
    with PCPQVectorStore.from_persist_path(str(path)) as again:
        assert again.metric == "dot"
        found = again.query(ask("music"))
        assert found.ids == [some_id for some_id in expected.ids if some_id != "e"]
        assert PCPQVectorStore.from_dict(again.to_dict() | {"mode": "r"}).query(ask("music")).ids == found.ids
    with pytest.raises(ValueError, match="closed"):
        store.query(ask("music"))


def test_a_store_is_persisted_with_its_context(tmp_path, store):
    embedding = WordEmbedding()
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex(nodes=[], storage_context=context, embed_model=embedding)
    index.insert_nodes([TextNode(id_="f", text="drum music")])
    context.persist(str(tmp_path))
    with PCPQVectorStore.from_persist_dir(str(tmp_path)) as opened:
        context = StorageContext.from_defaults(persist_dir=str(tmp_path), vector_store=opened)
        index = load_index_from_storage(context, embed_model=embedding)
        found = index.as_retriever(similarity_top_k=1).retrieve("drum")
        assert [one.node.get_content() for one in found] == ["drum music"]
        opened.delete_nodes(["f"])
        opened.persist(str(tmp_path / "default__vector_store.json"))  # to itself
    assert len(store.get_nodes()) == 6


def test_what_cannot_be_persisted_or_opened_is_refused(tmp_path, store):
    import fsspec

    with pytest.raises(FileNotFoundError, match="does not exist"):
        PCPQVectorStore.from_persist_path(str(tmp_path / "nowhere"))
    for use in (store.persist, PCPQVectorStore.from_persist_path):
        with pytest.raises(ValueError, match="MemoryFileSystem; an index is stored in a local directory"):
            use(str(tmp_path / "memory"), fs=fsspec.filesystem("memory"))
    store.persist(str(tmp_path / "local"), fs=fsspec.filesystem("file"))
    assert len(PCPQVectorStore.from_persist_path(str(tmp_path / "local"), mode="r").get_nodes()) == 5
    with pytest.raises(FileExistsError, match="holds nodes"):
        PCPQVectorStore().persist(str(tmp_path / "local"))
    PCPQVectorStore().persist(str(tmp_path / "empty"))
    with PCPQVectorStore.from_persist_path(str(tmp_path / "empty")) as opened:
        assert opened.get_nodes() == []
        opened.add(nodes())
    assert len(PCPQVectorStore.from_persist_path(str(tmp_path / "empty")).get_nodes()) == 5


def test_an_index_over_a_store_retrieves_inserts_and_deletes(tmp_path):
    with PCPQVectorStore(tmp_path / "store") as store:
        index = VectorStoreIndex.from_vector_store(store, embed_model=WordEmbedding())
        for text, metadata in zip(TEXTS, METADATA, strict=True):
            hidden = {"excluded_embed_metadata_keys": list(metadata)}
            index.insert(Document(id_=text, text=text, metadata=metadata, **hidden))
        filters = only("year", FilterOperator.GT, 2020)
        for retriever, expected in (
            (index.as_retriever(similarity_top_k=1), [TEXTS[0]]),
            (index.as_retriever(similarity_top_k=5, filters=filters), [TEXTS[3]]),
            (index.as_retriever(similarity_top_k=5, doc_ids=[TEXTS[2]]), [TEXTS[2]]),
            (index.as_retriever(similarity_top_k=1, vector_store_query_mode="mmr"), [TEXTS[0]]),
        ):
            assert [one.node.get_content() for one in retriever.retrieve("piano concert")] == expected
            awaited = asyncio.run(retriever.aretrieve("piano concert"))
            assert [one.node.get_content() for one in awaited] == expected
        index.delete_ref_doc(TEXTS[0])
        index.update_ref_doc(Document(id_=TEXTS[2], text="tennis match"))
        left = sorted(node.get_content() for node in store.get_nodes())
        assert left == sorted([TEXTS[1], "tennis match", *TEXTS[3:]])


def test_an_index_works_with_the_embedding_that_llama_index_has_for_tests():
    store = PCPQVectorStore()
    index = VectorStoreIndex.from_vector_store(store, embed_model=MockEmbedding(embed_dim=5))
    index.insert_nodes([TextNode(id_=name, text=name) for name in IDS])
    assert {one.node.node_id for one in index.as_retriever(similarity_top_k=10).retrieve("any")} == set(IDS)
    index.delete_nodes(["a", "b"])
    assert {one.node.node_id for one in index.as_retriever(similarity_top_k=10).retrieve("any")} == set(IDS[2:])


def test_documents_of_langchain_are_nodes_too(tmp_path):
    class Embeddings:
        def embed_documents(self, texts):
            return [embed(text).tolist() for text in texts]

    LangChainStore.from_texts(TEXTS, Embeddings(), METADATA, ids=IDS, path=tmp_path / "store").close()
    with PCPQVectorStore(tmp_path / "store") as store:
        store.add([TextNode(id_="f", text="drum", embedding=embed("drum").tolist())])
        (node,) = store.query(ask("piano concert", 1)).nodes
        assert (node.node_id, node.text, node.metadata) == ("a", TEXTS[0], METADATA[0])
        assert store.query(ask("drum", 1)).nodes[0].text == "drum"


def test_a_pickled_store_has_its_nodes(store):
    copied = pickle.loads(pickle.dumps(store))
    assert copied.query(ask("piano concert", 1)).nodes == store.query(ask("piano concert", 1)).nodes


def test_tasks_may_add_and_query_at_once():
    async def use():
        store = PCPQVectorStore()
        await asyncio.gather(*(store.async_add([node]) for node in nodes()))
        found = await asyncio.gather(*(store.aquery(ask(text, 1)) for text in TEXTS))
        return [one.ids[0] for one in found]

    assert asyncio.run(use()) == IDS


@pytest.mark.parametrize(
    ("blocked", "hint"),
    [
        ("llama_index.core", r"pip install 'pcpq\[llama-index\]'"),
        ("duckdb", r"pip install 'pcpq\[attributes\]'"),
    ],
)
def test_what_is_not_installed_is_named_with_the_way_to_get_it(blocked, hint):
    program = f"""
import re, sys
import pcpq
assert "llama_index" not in sys.modules
sys.modules[{blocked!r}] = None
try:
    from pcpq.integrations.llama_index import PCPQVectorStore
    PCPQVectorStore()
except ImportError as error:
    assert re.search({hint!r}, str(error)), error
else:
    raise AssertionError("no ImportError")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
