"""The LangChain store does what LangChain's own tests ask of one, and finds what is there."""

import asyncio
import math
import subprocess
import sys

import numpy as np
import pytest
from embedding import embed
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from langchain_documents import IDS, METADATA, TEXTS, WordEmbeddings, filled_store, ids_of
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests

import pcpq
from pcpq.integrations.langchain import PCPQVectorStore


@pytest.fixture
def store():
    return filled_store()


class AsyncOnly(WordEmbeddings):
    """An embedding that would block the loop unless it is awaited."""

    def embed_documents(self, texts):
        raise AssertionError("not awaited")

    embed_query = embed_documents

    async def aembed_documents(self, texts):
        return [embed(text).tolist() for text in texts]

    async def aembed_query(self, text):
        return embed(text).tolist()


@pytest.mark.anyio
class TestStandard(VectorStoreIntegrationTests):
    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    @pytest.fixture(params=["memory", "directory"])
    def vectorstore(self, request, tmp_path):
        path = None if request.param == "memory" else tmp_path / "store"
        with PCPQVectorStore(self.get_embeddings(), path) as store:
            yield store


def test_documents_are_found_by_their_meaning(store):
    assert ids_of(store.similarity_search("piano concert", k=2)) == ["a", "d"]
    assert set(ids_of(store.similarity_search("prince", k=2))) == {"b", "e"}
    assert store.similarity_search("piano concert", k=1) == [
        Document(id="a", page_content=TEXTS[0], metadata=METADATA[0])
    ]
    assert len(store.similarity_search("piano concert", k=100)) == 5


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
def test_scores_are_those_of_the_metric(metric):
    store = PCPQVectorStore.from_texts(TEXTS, WordEmbeddings(), ids=IDS, metric=metric, keep="float32")
    query, vectors = embed("piano concert"), np.array([embed(text) for text in TEXTS])
    exact = vectors @ query
    if metric == "cosine":
        exact /= np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    elif metric == "euclidean":
        exact = ((vectors - query) ** 2).sum(axis=1)
    found = store.similarity_search_with_score("piano concert", k=5)
    assert [score for _, score in found] == pytest.approx([exact[IDS.index(d.id)] for d, _ in found], abs=1e-5)
    assert len(found) == 5
    relevances = [score for _, score in store.similarity_search_with_relevance_scores("piano concert", k=5)]
    assert relevances == sorted(relevances, reverse=True)
    assert all(0 <= relevance <= 1 for relevance in relevances)


def test_relevances_are_cosines_and_never_negative():
    class Opposites(WordEmbeddings):
        def embed_documents(self, texts):
            return [(-embed(text[1:]) if text.startswith("-") else embed(text)).tolist() for text in texts]

    store = PCPQVectorStore.from_texts(["-piano", "piano"], Opposites(), ids=["x", "y"])
    found = store.similarity_search_with_relevance_scores("piano", k=2)
    assert [(document.id, score) for document, score in found] == [("y", pytest.approx(1, abs=1e-4)), ("x", 0)]


def test_a_threshold_leaves_what_is_relevant(store):
    found = store.similarity_search_with_relevance_scores("violin music", k=5, score_threshold=0.7)
    assert {document.id for document, _ in found} == {"a", "d"}


def test_relevance_can_be_the_users_own():
    store = PCPQVectorStore.from_texts(TEXTS, WordEmbeddings(), relevance_score_fn=lambda score: score / 4)
    (_, score), *_ = store.similarity_search_with_score("piano concert", k=1)
    (_, relevance), *_ = store.similarity_search_with_relevance_scores("piano concert", k=1)
    assert relevance == pytest.approx(score / 4)


@pytest.mark.parametrize("balance", [0.0, 0.3, 0.5, 1.0])
def test_diverse_results_are_those_of_langchain(store, balance):
    vectors = [embed(text).tolist() for text in TEXTS]
    expected = maximal_marginal_relevance(embed("piano concert"), vectors, lambda_mult=balance, k=3)
    found = store.max_marginal_relevance_search("piano concert", k=3, fetch_k=5, lambda_mult=balance)
    assert ids_of(found) == [IDS[place] for place in expected]
    by_vector = store.max_marginal_relevance_search_by_vector(embed("piano concert").tolist(), 3, 5, balance)
    assert by_vector == found


def test_diverse_results_come_from_the_best_candidates(store):
    assert set(ids_of(store.max_marginal_relevance_search("piano concert", k=2, fetch_k=2, lambda_mult=0))) == {
        "a",
        "d",
    }
    assert set(ids_of(store.max_marginal_relevance_search("piano concert", k=2, fetch_k=5, lambda_mult=0))) != {
        "a",
        "d",
    }
    found = store.max_marginal_relevance_search(
        "piano concert", k=3, filter={"kind": "music"}, where="year > 2020"
    )
    assert ids_of(found) == ["d"]
    with pytest.raises(ValueError, match=r"1\.5; expected 0 to 1"):
        store.max_marginal_relevance_search("piano concert", lambda_mult=1.5)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("similarity_search", ("piano concert",)),
        ("similarity_search_with_score", ("piano concert",)),
        ("similarity_search_with_relevance_scores", ("piano concert",)),
        ("similarity_search_by_vector", (embed("piano concert").tolist(),)),
        ("similarity_search_with_score_by_vector", (embed("piano concert").tolist(),)),
        ("max_marginal_relevance_search", ("piano concert",)),
        ("max_marginal_relevance_search_by_vector", (embed("piano concert").tolist(),)),
        ("search", ("piano concert", "mmr")),
        ("get_by_ids", (["b", "a", "z"],)),
    ],
)
def test_asynchronous_methods_do_the_same(store, name, arguments):
    options = {} if name == "get_by_ids" else {"k": 2, "filter": {"kind": "music"}}
    expected = getattr(store, name)(*arguments, **options)
    assert expected
    assert asyncio.run(getattr(store, "a" + name)(*arguments, **options)) == expected


def test_asynchronous_methods_await_the_embedding():
    async def use():
        store = await PCPQVectorStore.afrom_texts(TEXTS, AsyncOnly(), METADATA, ids=IDS)
        await store.aadd_documents([Document(id="f", page_content="drum music")])
        found = await asyncio.gather(*(store.asimilarity_search(word, k=1) for word in ("drum", "king")))
        diverse = await store.amax_marginal_relevance_search("piano concert", k=2)
        await store.adelete(["f"])
        return (
            ids_of(document for some in found for document in some),
            len(diverse),
            await store.aget_by_ids(["f"]),
        )

    assert asyncio.run(use()) == (["f", "b"], 2, [])


def test_metadata_comes_back_as_it_was():
    metadata = {
        "deep": {"list": [1, 2.5, None, True, {"x": []}], "empty": {}},
        "huge": 2**70,
        "text": "a key that is also a column",
        "Text": "ä 日本 \0 '\"\\ \u2028",
        "": "no name",
        "node": 0.1,
        "year": 1e-310,
        "YEAR": False,
    }
    store = PCPQVectorStore.from_texts(["piano"], WordEmbeddings(), [metadata], ids=["a"])
    (found,) = store.get_by_ids(["a"])
    assert found.metadata == metadata
    assert [type(value) for value in found.metadata.values()] == [type(value) for value in metadata.values()]
    for key in ("huge", "text", "Text", "", "node", "year", "YEAR"):
        assert ids_of(store.similarity_search("piano", filter={key: metadata[key]})) == ["a"], key
        assert store.similarity_search("piano", filter={key: {"$ne": metadata[key]}}) == [], key


def test_numbers_of_numpy_are_numbers():
    store = PCPQVectorStore.from_texts(
        ["piano"], WordEmbeddings(), [{"n": np.int32(3), "x": (np.float32(0.5),)}]
    )
    (found,) = store.similarity_search("piano", filter={"n": 3})
    assert found.metadata == {"n": 3, "x": [0.5]}


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"score": math.nan}, ValueError, "the metadata of 'a' at 'score' is nan"),
        ({"deep": [math.inf]}, ValueError, "at 'deep' at 0 is inf"),
        ({"when": {1, 2}}, TypeError, r"at 'when' is \{1, 2\}"),
        ({"deep": {3: 4}}, TypeError, "at 'deep' has the key 3"),
        ({"half": "\ud800"}, ValueError, "the metadata of 'a' has half a surrogate pair"),
    ],
)
def test_metadata_that_would_be_lost_is_refused(metadata, error, message):
    store = PCPQVectorStore(WordEmbeddings())
    with pytest.raises(error, match=message):
        store.add_texts(["piano"], [metadata], ids=["a"])
    assert store.similarity_search("piano") == []


def test_ids_are_made_where_there_are_none_and_replace_where_they_are_known(store):
    ids = store.add_documents(
        [Document(page_content="drum music"), Document(id="a", page_content="a new king")]
    )
    assert ids[1] == "a"
    assert len({*ids, *IDS}) == 6
    assert store.get_by_ids(["a"]) == [Document(id="a", page_content="a new king")]
    assert "a" not in ids_of(store.similarity_search("music", filter={"kind": "music"}))
    assert store.add_texts([]) == []
    assert store.add_texts(["one", "two"], ids=["x", "x"]) == ["x", "x"]
    assert [document.page_content for document in store.get_by_ids(["x", "x"])] == ["two"]


def test_numbers_that_do_not_match_are_refused(store):
    with pytest.raises(ValueError, match="1 ids for 2 texts"):
        store.add_texts(["one", "two"], ids=["x"])
    with pytest.raises(ValueError, match="3 metadatas for 2 texts"):
        store.add_texts(["one", "two"], [{}, {}, {}])
    with pytest.raises(TypeError, match="texts is 'one'"):
        store.add_texts("one")
    with pytest.raises(ValueError, match="id 7 is not a str"):
        store.add_texts(["one", "two"], ids=["x", 7])
    with pytest.raises(ValueError, match=r"expected 1 .*k|k is 0"):
        store.similarity_search("one", k=0)


def test_documents_are_deleted_by_ids_or_filters_or_all(store):
    assert store.delete(["a", "z"])
    assert store.delete(filter={"year": 2021})
    assert sorted(ids_of(store.similarity_search("music", k=10))) == ["b", "c", "e"]
    with pytest.raises(ValueError, match="ids, or a filter"):
        store.delete(["b"], filter={"kind": "sport"})
    assert store.delete()
    assert store.similarity_search("music") == []
    assert store.similarity_search("music", filter={"kind": "music"}) == []
    assert store.get_by_ids(["b"]) == []


def test_an_empty_store_finds_nothing():
    store = PCPQVectorStore(WordEmbeddings())
    assert store.index is None
    assert store.similarity_search("music", filter={"a": 1}, where="b > 2") == []
    assert store.max_marginal_relevance_search("music") == []
    assert store.get_by_ids(["a"]) == []
    assert store.delete(["a"])
    assert store.delete()
    with pytest.raises(ValueError, match="no documents yet"):
        store.save("anywhere")


def test_a_store_in_a_directory_is_there_when_it_is_opened_again(tmp_path):
    with PCPQVectorStore.from_texts(
        TEXTS, WordEmbeddings(), METADATA, ids=IDS, path=tmp_path / "store", metric="dot", keep="float32"
    ) as store:
        store.delete(["c"])
        expected = store.similarity_search_with_score("piano concert", k=10)
    for opening in (
        lambda: PCPQVectorStore(WordEmbeddings(), tmp_path / "store"),
        lambda: PCPQVectorStore.load(tmp_path / "store", WordEmbeddings()),
        lambda: PCPQVectorStore.load(str(tmp_path / "store"), WordEmbeddings(), mode="r", metric="dot"),
    ):
        with opening() as opened:
            assert opened.similarity_search_with_score("piano concert", k=10) == expected
            assert ids_of(
                opened.similarity_search("piano concert", where="year > 2020", filter={"kind": "music"})
            ) == ["d"]
    assert sorted(ids_of(document for document, _ in expected)) == ["a", "b", "d", "e"]


def test_keys_get_on_with_those_that_were_there_before(tmp_path):
    with PCPQVectorStore.from_texts(
        ["one"], WordEmbeddings(), [{"n": 1}], ids=["a"], path=tmp_path / "s"
    ) as store:
        store.add_texts(["two"], [{"n": "two", "more": True}], ids=["b"])
    with PCPQVectorStore(WordEmbeddings(), tmp_path / "s") as store:
        store.add_texts(["three", "four"], [{"n": [3]}, {"n": 4.5, "more": "text"}], ids=["c", "d"])
        assert ids_of(store.similarity_search("one", where="more")) == ["b"]
        assert sorted(ids_of(store.similarity_search("one", where="n > 0"))) == ["a", "d"]
        assert (
            sorted(ids_of(store.similarity_search("one", filter={"n": {"$in": [1, "two", [3], 4.5]}})))
            == IDS[:4]
        )
        assert ids_of(store.similarity_search("one", filter={"more": "text"})) == ["d"]


def test_a_copy_can_be_saved_and_loaded(store, tmp_path):
    store.save(tmp_path / "copy")
    store.delete()
    with PCPQVectorStore.load(tmp_path / "copy", WordEmbeddings()) as copied:
        assert ids_of(copied.similarity_search("piano concert", k=2)) == ["a", "d"]


def test_one_store_writes_and_others_read(tmp_path):
    path = tmp_path / "store"
    with PCPQVectorStore.from_texts(TEXTS[:1], WordEmbeddings(), ids=["a"], path=path) as writer:
        with pytest.raises(pcpq.LockedError, match="is being written by"):
            PCPQVectorStore(WordEmbeddings(), path)
        reader = PCPQVectorStore(WordEmbeddings(), path, mode="r")
        writer.add_texts(TEXTS[1:2], [{"new": 1}], ids=["b"])
        assert len(reader.similarity_search("king", k=5)) == 1
        assert reader.refresh()
        assert not reader.refresh()
        assert ids_of(reader.similarity_search("king", k=5, filter={"new": 1})) == ["b"]
        for change in (lambda: reader.add_texts(["x"]), lambda: reader.delete(["a"]), reader.delete):
            with pytest.raises(ValueError, match="is open for reading only"):
                change()
        with pytest.raises(ValueError, match="opened for reading"):
            writer.refresh()
    with pytest.raises(ValueError, match="is closed; open"):
        writer.add_texts(["x"])
    with pytest.raises(ValueError, match="is closed; open"):
        writer.similarity_search("x")


def test_what_cannot_be_a_store_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        PCPQVectorStore.load(tmp_path / "nowhere", WordEmbeddings())
    with pytest.raises(FileNotFoundError, match="does not exist"):
        PCPQVectorStore(WordEmbeddings(), tmp_path / "nowhere", mode="r")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("must not be lost")
    with pytest.raises(FileExistsError, match=r"it holds thesis\.txt"):
        PCPQVectorStore(WordEmbeddings(), tmp_path / "other")
    with pytest.raises(FileExistsError, match="is not a directory"):
        PCPQVectorStore(WordEmbeddings(), tmp_path / "other" / "thesis.txt")
    vectors = np.eye(4, dtype=np.float32)
    pcpq.build(vectors, metric="dot").save(tmp_path / "numbers")
    pcpq.build(vectors, list("abcd"), metric="dot").save(tmp_path / "bare")
    pcpq.build(vectors, list("abcd"), metric="dot", attributes={"text": ["x"] * 4}).save(tmp_path / "half")
    pcpq.build(vectors, list("abcd"), metric="dot", keep=None).save(tmp_path / "codes")
    reasons = {"numbers": "ids are numbers", "bare": "no attributes", "half": "no column 'metadata'"}
    for name, reason in (reasons | {"codes": "keeps no vectors"}).items():
        for _ in range(2):  # the first try leaves no lock behind
            with pytest.raises(ValueError, match=reason):
                PCPQVectorStore(WordEmbeddings(), tmp_path / name)
    PCPQVectorStore.from_texts(TEXTS, WordEmbeddings(), path=tmp_path / "store").close()
    with pytest.raises(ValueError, match=r"metric is 'dot', but .*store has 'cosine'"):
        PCPQVectorStore(WordEmbeddings(), tmp_path / "store", metric="dot")
    with pytest.raises(ValueError, match=r"keep is 'int8', but .*store has 'int16'"):
        PCPQVectorStore(WordEmbeddings(), tmp_path / "store", keep="int8")
    with pytest.raises(ValueError, match="metric is 'manhattan'"):
        PCPQVectorStore(WordEmbeddings(), metric="manhattan")
    with pytest.raises(ValueError, match="mode is 'w'"):
        PCPQVectorStore(WordEmbeddings(), tmp_path / "new", mode="w")
    with pytest.raises(ValueError, match="mode is 'r' and path is None"):
        PCPQVectorStore(WordEmbeddings(), mode="r")
    assert not (tmp_path / "new").exists()


def test_retrievers_search_in_all_three_ways(store):
    def retrieved(**options):
        return ids_of(store.as_retriever(**options).invoke("piano concert"))

    assert retrieved(search_kwargs={"k": 2}) == ["a", "d"]
    assert retrieved(search_type="mmr", search_kwargs={"k": 2, "fetch_k": 5, "lambda_mult": 0.1}) != ["a", "d"]
    options = {"search_type": "similarity_score_threshold", "search_kwargs": {"score_threshold": 0.99}}
    assert retrieved(**options) == []
    assert retrieved(search_kwargs={"k": 2, "filter": {"kind": "sport"}, "target_recall": 0.9}) == ["c"]


def test_langchains_own_indexing_adds_keeps_and_cleans_up(tmp_path):
    with PCPQVectorStore(WordEmbeddings(), tmp_path / "store") as store:
        records = InMemoryRecordManager("test")
        records.create_schema()
        documents = [Document(page_content=text, metadata={"source": text}) for text in TEXTS]

        def run(some):
            options = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
            done = index(some, records, store, **options)
            return done["num_added"], done["num_skipped"], done["num_deleted"]

        assert run(documents) == (5, 0, 0)
        assert run(documents[:3]) == (0, 3, 2)
        found = store.similarity_search("music", k=10)
        assert sorted(document.page_content for document in found) == sorted(TEXTS[:3])


@pytest.mark.parametrize(
    ("blocked", "hint"),
    [
        ("langchain_core", r"pip install 'pcpq\[langchain\]'"),
        ("pyarrow", r"pip install 'pcpq\[attributes\]'"),
        ("duckdb", r"pip install 'pcpq\[attributes\]'"),
    ],
)
def test_what_is_not_installed_is_named_with_the_way_to_get_it(blocked, hint):
    program = f"""
import re, sys
import pcpq
assert "langchain_core" not in sys.modules
sys.modules[{blocked!r}] = None
try:
    from pcpq.integrations.langchain import PCPQVectorStore
    PCPQVectorStore(None)
except ImportError as error:
    assert re.search({hint!r}, str(error)), error
else:
    raise AssertionError("no ImportError")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
