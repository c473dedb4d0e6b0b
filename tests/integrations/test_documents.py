"""Documents stay whole and are found, however many there are and whatever happens to the process."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from embedding import common_words, embed
from langchain_core.vectorstores.utils import maximal_marginal_relevance

import pcpq
from pcpq.integrations import conditions, documents
from pcpq.integrations.documents import Documents, diverse
from pcpq.integrations.metadata import MOST_COLUMNS

HERE = Path(__file__).parent


def put(store, texts, metadata=None):
    store.put(texts, np.array([embed(text) for text in texts]), texts, metadata or [{}] * len(texts))


def recall(store, queries, k=10):
    """Return the recall of a store that contains the most frequent words."""
    words = common_words(len(store))
    vectors = np.array([embed(word) for word in words])
    found = 0
    for query in queries:
        best = np.argsort(-(vectors @ embed(query)))[:k]
        found += len({words[place] for place in best} & {row.id for row, _ in store.find(embed(query), k)})
    return found / (k * len(queries))


def test_a_store_stays_good_as_it_grows(tmp_path):
    store, words, lists = Documents(tmp_path / "store"), common_words(9000), []
    queries = words[::600]
    for start, stop in [(0, 1), (1, 2), (2, 100), (100, 2000), (2000, 2001), (2001, 3500), (3500, 9000)]:
        put(store, words[start:stop])
        lists.append(store.index.stats()["lists"])
        assert len(store) == stop
        assert recall(store, queries[: 1 + stop // 600], min(10, stop)) >= (1.0 if stop <= 2000 else 0.9)
    # Up to 2,000 rows, all are searched; then lists are learned, and again at twice as many rows.
    assert lists == [1, 1, 1, 1, 89, 89, 190]
    store.close()
    for use in (lambda: store.rows(["the"]), store.ids_where, lambda: store.find(embed("the"), 1)):
        with pytest.raises(ValueError, match="this store is closed; open"):
            use()
    again = Documents(tmp_path / "store")
    again.put(["new"], [embed("piano")], ["new"], [{}])
    assert again.index.stats()["lists"] == 190
    assert {row.id for row, _ in again.find(embed("piano"), 2)} == {"new", "piano"}


def test_many_documents_at_once_are_learned_from_at_once():
    store = Documents()
    put(store, common_words(4000))
    assert store.index.stats()["lists"] == 126
    assert recall(store, common_words(4000)[::400]) >= 0.9


@pytest.mark.parametrize("place", ["memory", "directory"])
def test_an_emptied_store_begins_anew(tmp_path, place):
    path = None if place == "memory" else tmp_path / "store"
    store = Documents(path)
    store.put(["a", "b"], np.eye(2), ["a", "b"], [{"n": 1}, {"n": 2}])
    assert store.remove_where() == 2
    assert store.find(np.ones(2), 3) == store.rows(["a"]) == store.ids_where() == []
    store.put(["c"], np.ones((1, 5)), ["c"], [{"n": "now a text"}])
    assert [row.id for row, _ in store.find(np.ones(5), 3, where="n = 'now a text'")] == ["c"]
    store.close()
    if path is not None:
        assert [row.text for row in Documents(path).rows(["a", "c"])] == ["c"]


def test_columns_are_bounded_and_filters_are_not(tmp_path):
    store = Documents(tmp_path / "store")
    metadata = [{f"key{n}": n, "Shared": n, "sHARED": -n} for n in range(100)]
    store.put(
        [str(n) for n in range(100)], np.random.default_rng(0).normal(size=(100, 4)), ["x"] * 100, metadata
    )
    assert len(store.index.get(["0"]).column_names) == MOST_COLUMNS + 2
    for n in (0, 50, 99):
        assert store.ids_where([conditions.among(f"key{n}", [n])]) == [str(n)]
        assert store.ids_where([conditions.among("sHARED", [-n])]) == [str(n)]
    store.close()
    again = Documents(tmp_path / "store")
    again.put(["more"], np.ones((1, 4)), ["x"], [{"key3": 3.5, "another": 1}])
    assert again.ids_where(where="key3 > 3") == ["more"]
    assert len(again.index.get(["0"]).column_names) == MOST_COLUMNS + 2


def test_what_is_wrong_with_documents_is_said():
    store = Documents()
    with pytest.raises(ValueError, match="2 ids, 1 vectors, 2 texts, 2 metadata"):
        store.put(["a", "b"], np.eye(1), ["a", "b"], [{}, {}])
    with pytest.raises(TypeError, match="the text of 'a' is 3; expected a str"):
        store.put(["a"], np.eye(1), [3], [{}])
    with pytest.raises(ValueError, match="the text of 'a' has half a surrogate pair at character 2"):
        store.put(["a"], np.eye(1), ["ok\udfff"], [{}])
    store.put(["a"], np.eye(2)[:1], ["a"], [{}])
    with pytest.raises(ValueError, match=r"vectors have 3 dimensions, .* has 2"):
        store.put(["b"], np.ones((1, 3)), ["b"], [{}])
    with pytest.raises(ValueError, match=r"vectors\[0\] is zero"):
        store.put(["b"], np.zeros((1, 2)), ["b"], [{}])
    with pytest.raises(ValueError, match="queries have 3 dimensions, the index has 2"):
        store.find(np.ones(3), 1)
    assert [row.id for row, _ in store.find(np.ones(2), 5)] == ["a"]


def test_a_directory_that_was_filled_meanwhile_is_not_changed(tmp_path):
    late, early = Documents(tmp_path / "store"), Documents(tmp_path / "store")
    put(early, ["king"])
    with pytest.raises(pcpq.LockedError, match="created by another process"):
        put(late, ["piano"])
    early.close()
    assert [row.id for row in Documents(tmp_path / "store").rows(["king", "piano"])] == ["king"]


@pytest.mark.parametrize("place", ["memory", "directory"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))])
def test_copies_are_in_memory_and_go_their_own_ways(tmp_path, place, copied):
    store = Documents(None if place == "memory" else tmp_path / "store")
    put(store, ["king"], [{"n": 1}])
    twin = copied(store)
    put(twin, ["piano"], [{"n": 2}])
    twin.remove(["king"])
    assert [row.id for row in twin.rows(["king", "piano"])] == twin.ids_where(where="n > 0") == ["piano"]
    assert [row.id for row in store.rows(["king", "piano"])] == ["king"]
    assert twin.path is None


def test_diverse_rows_are_those_of_langchain():
    generator = np.random.default_rng(5)
    for balance in (0.0, 0.2, 0.5, 0.9, 1.0):
        query, rows = generator.normal(size=8), generator.normal(size=(30, 8)).astype(np.float32)
        expected = maximal_marginal_relevance(query, rows.tolist(), lambda_mult=balance, k=12)
        assert diverse(query, rows, 12, balance) == expected
    assert sorted(diverse(query, rows[:3], 12, 0.5)) == [0, 1, 2]


def test_threads_may_add_search_and_remove_at_once(tmp_path):
    store, words = Documents(tmp_path / "store"), common_words(240)
    put(store, words[:40], [{"part": 0}] * 40)
    stop, wrong = threading.Event(), []

    def search(seed):
        generator = np.random.default_rng(seed)
        while not stop.is_set():
            word = words[generator.integers(240)]
            for row, _ in store.find(embed(word), 5, conditions=[conditions.among("part", [0, 1, 2, 3, 4])]):
                if row.text != row.id or f'"part": {words.index(row.id) // 40 % 6}' not in row.metadata:
                    wrong.append(row)
            store.find_diverse(embed(word), 3, 10, 0.5)

    def add(part):
        put(store, words[40 * part : 40 * part + 40], [{"part": part}] * 40)
        store.remove(words[40 * part : 40 * part + 20])

    with ThreadPoolExecutor(5) as pool:
        searches = [pool.submit(search, seed) for seed in range(2)]
        try:
            for done in [pool.submit(add, part) for part in range(1, 5)]:
                done.result()
        finally:
            stop.set()
        for done in searches:
            done.result()
    assert wrong == []
    left = words[:40] + [word for part in range(1, 5) for word in words[40 * part + 20 : 40 * part + 40]]
    assert sorted(store.ids_where()) == sorted(left)
    store.close()
    assert sorted(Documents(tmp_path / "store", mode="r").ids_where()) == sorted(left)


WRITER = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[2])
from embedding import common_words, embed
from pcpq.integrations.documents import Documents

store, words = Documents(sys.argv[1]), common_words(3000)
for start in range(0, 3000, 5):
    some = words[start : start + 5]
    store.put(some, [embed(word) for word in some], some, [{"word": word, "place": start} for word in some])
    if start % 3 == 0:
        store.remove(some[:1])
    print(start + 5, flush=True)
"""


@pytest.mark.parametrize("commits", [1, 2, 9, 30])
def test_a_killed_process_leaves_texts_with_their_vectors(tmp_path, commits):
    command = [sys.executable, "-c", WRITER, str(tmp_path / "store"), str(HERE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        told = [int(writer.stdout.readline()) for _ in range(commits)]
        # It is somewhere in the next one.
        threading.Event().wait(0.002 * commits % 0.011)
        os.kill(writer.pid, signal.SIGKILL)
    store = Documents(tmp_path / "store")
    words = common_words(3000)
    rows = store.rows(store.ids_where())
    assert {row.id for row in rows} >= set(words[: told[-1]]) - set(words[0::15])
    vectors = store.index.reconstruct([row.id for row in rows])
    for row, vector in zip(rows, vectors, strict=True):
        assert row.text == row.id
        assert row.metadata == f'{{"word": "{row.id}", "place": {words.index(row.id) // 5 * 5}}}'
        assert vector @ embed(row.id) > 0.999
    put(store, ["more"])


def test_a_failed_commit_is_said_and_the_next_one_brings_everything(tmp_path, monkeypatch):
    store = Documents(tmp_path / "store")
    put(store, ["king"])

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pcpq.store.store.write_segment", full)
        with pytest.raises(OSError, match="No space left"):
            put(store, ["queen"], [{"year": 2020}])
    put(store, ["piano"], [{"year": "a text"}])
    assert store.ids_where(where="year > 0") == ["queen"]
    store.close()
    assert len(Documents(tmp_path / "store").rows(["king", "queen", "piano"])) == 3


def test_relevance_is_between_0_and_1():
    for metric, scores in {
        "cosine": [-1, 0, 0.5, 1.0001],
        "dot": [-1e9, -1, 0, 1e9],
        "euclidean": [1e9, 1, 0],
    }.items():
        found = [documents.relevance_of(metric)(score) for score in scores]
        assert found == sorted(found)
        assert min(found) >= 0
        assert max(found) <= 1


def test_a_replaced_document_has_the_new_metadata_only(tmp_path):
    store = Documents(tmp_path / "store")
    put(store, ["king", "queen"], [{"year": 1, "lang": "en"}, {"year": 2}])
    put(store, ["king", "piano"], [{"kind": "x"}, {"year": 3}])
    assert store.index.get(["king", "queen"]).select(["year", "lang", "kind"]).to_pylist() == [
        {"year": None, "lang": None, "kind": "x"},
        {"year": 2.0, "lang": None, "kind": None},
    ]
    store.close()
