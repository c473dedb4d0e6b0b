"""Changes of attributes and removals by condition: what stays, what searches see, and what is stored."""

import pickle
import threading

import numpy as np
import pyarrow as pa
import pytest

import pcpq
from pcpq.index import state_of
from pcpq.store import changes

N = 1500


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(6).normal(size=(N, 8)).astype(np.float32)


@pytest.fixture(params=["int", "str"])
def named(request):
    """Return ids of a kind for numbers."""
    if request.param == "int":
        return lambda numbers: np.asarray(numbers)
    return lambda numbers: [f"n{number}" for number in numbers]


def table_of(numbers):
    return pa.table({"lang": [["en", "de"][i % 2] for i in numbers], "year": np.asarray(numbers) + 2000})


@pytest.fixture
def index(vectors, named):
    """An index of three segments, the last of which has no attributes."""
    index = pcpq.Index(metric="dot", n_lists=10).fit(vectors)
    for first, last in ((0, 1340), (1340, 1480)):
        numbers = np.arange(first, last)[::-1]
        index.add(vectors[numbers], named(numbers), attributes=table_of(numbers))
    index.add(vectors[1480:], named(np.arange(1480, N)))
    assert index.stats()["segments"] == 3
    return index


def answers(index, vectors):
    """Return what searches answer, which attributes do not change."""
    found = index.search(vectors[:20], 10, probes=10, rerank=N)
    return found.scores.tobytes(), found.ids.tolist()


def found_by(index, where):
    return set(index.where(where).ids.tolist())


def test_an_update_changes_the_given_columns_of_the_given_ids_only(index, vectors, named):
    before, vector = answers(index, vectors), index.reconstruct(named([3]))
    index.update(named([1345, 3, 1490]), {"lang": ["fr", "es", "it"], "extra": [1.5, 2.5, 3.5]})
    for _ in range(2):
        assert index.get(named([3, 1345, 1490, 4])).to_pydict() == {
            "lang": ["es", "fr", "it", "en"],
            "year": [2003, 3345, None, 2004],
            "extra": [2.5, 1.5, 3.5, None],
        }
        assert found_by(index, "lang = 'fr'") == set(named([1345]))
        assert found_by(index, "extra > 2") == set(named([3, 1490]))
        assert len(index) == N
        assert answers(index, vectors) == before
        assert np.array_equal(index.reconstruct(named([3])), vector)
        index.compact()


def test_an_update_of_all_vectors_and_a_first_update(vectors, named):
    index = pcpq.build(vectors, named(np.arange(N)), metric="cosine", keep=None)
    before = answers(index, vectors)
    index.update(named(np.arange(N)[::-1]), {"place": np.arange(N)[::-1]})
    assert index.get(named([7, 5])).to_pydict() == {"place": [7, 5]}
    assert index.stats()["segments"] == 1
    assert index.stats()["removed"] == 0
    assert answers(index, vectors) == before


def test_ids_that_do_not_exist_are_named_and_nothing_changes(index, vectors, named):
    index.remove(named([7]))
    before = state_of(index).snapshot
    missing = named([7, N])
    with pytest.raises(KeyError, match=f"ids {missing[0]}, {missing[1]} are not in the index"):
        index.update(named([3, 7, N]), {"lang": ["fr"] * 3})
    with pytest.raises(KeyError, match=f"id {missing[0]} is not in the index"):
        index.update(named([7]), {"lang": ["fr"]})
    with pytest.raises(KeyError, match=r", \.\.\. are not in the index"):
        index.update(named(np.arange(N, N + 9)), {"lang": ["fr"] * 9})
    for attributes, message in (
        ({"lang": ["fr"]}, "1 rows for 2 vectors"),
        ({"year": ["a", "b"]}, "year"),
        ({"Lang": ["a", "b"]}, "same name in SQL"),
        ({}, "no columns|0 rows for 2"),
    ):
        with pytest.raises(ValueError, match=message):
            index.update(named([3, 4]), attributes)
    with pytest.raises(ValueError, match="given twice"):
        index.update(named([3, 3]), {"lang": ["a", "b"]})
    with pytest.raises(ValueError, match="an index has one kind"):
        index.update([1] if isinstance(missing, list) else ["a"], {"lang": ["a"]})
    assert state_of(index).snapshot is before
    index.update(named([]), pa.table({"lang": pa.array([], pa.string())}))
    assert state_of(index).snapshot is before


def test_an_update_is_committed_and_seen_after_a_refresh(index, named, tmp_path):
    index.save(tmp_path / "index")
    reader = pcpq.open(tmp_path / "index")
    with pytest.raises(ValueError, match="reading only"):
        reader.update(named([3]), {"lang": ["fr"]})
    size = sum(path.stat().st_size for path in (tmp_path / "index").iterdir())
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        writer.update(named([3]), {"lang": ["fr"]})
        writer.commit()
        assert writer.get(named([3])).to_pydict() == {"lang": ["fr"], "year": [2003]}
        assert sum(path.stat().st_size for path in (tmp_path / "index").iterdir()) < 1.2 * size
    assert reader.get(named([3])).to_pydict() == {"lang": ["de"], "year": [2003]}
    reader.refresh()
    for again in (reader, pcpq.open(tmp_path / "index"), pickle.loads(pickle.dumps(reader))):
        assert again.get(named([3, 4])).to_pydict() == {"lang": ["fr", "en"], "year": [2003, 2004]}
    reader.verify()


def test_a_snapshot_keeps_its_attributes(index, vectors, named):
    before = state_of(index).snapshot
    index.update(named([3]), {"lang": ["fr"]})
    assert len(before.bitmap_where("lang = 'fr'", None)) == 0
    assert found_by(index, "lang = 'fr'") == set(named([3]))


def test_an_update_beside_other_changes_loses_none_of_them(index, vectors, named):
    """Every round of one thread is an update, of the other an addition, removal or merge."""
    problems = []

    def change():
        try:
            for i in range(15):
                index.add(vectors[:1], named([N + i]))
                index.remove(named([1000 + i]))
                index.compact()
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=change)
    thread.start()
    for i in range(15):
        index.update(named([i, 1400 + i]), {"year": [i, i]})
    thread.join()
    assert problems == []
    assert index.get(named(np.arange(15)))["year"].to_pylist() == list(range(15))
    assert index.get(named(np.arange(1400, 1415)))["year"].to_pylist() == list(range(15))
    assert len(index) == N
    assert named([1003])[0] not in index


def test_a_change_that_comes_between_is_seen_by_an_update(index, vectors, named, monkeypatch):
    prepare, calls = changes.Update.prepare, []

    def prepared(self, contents):
        prepare(self, contents)
        calls.append(1)
        if len(calls) <= 3:
            index.upsert(vectors[3:4], named([3]), attributes={"lang": [f"new {len(calls)}"]})

    monkeypatch.setattr(changes.Update, "prepare", prepared)
    index.update(named([3, 5]), {"year": [1, 2]})
    assert len(calls) == 4
    assert index.get(named([3, 5])).to_pydict() == {"lang": ["new 3", "de"], "year": [1, 2]}


def test_an_upsert_keeps_attributes_that_are_not_given(index, vectors, named):
    ids = [1345, 3, N + 5, 1490, 4]
    index.upsert(vectors[:5], named(ids))
    expected = {"lang": ["de", "de", None, None, "en"], "year": [3345, 2003, None, None, 2004]}
    assert index.get(named(ids)).to_pydict() == expected
    index.upsert(vectors[5:10], named(ids), attributes={"lang": ["a", None, "c", "d", "e"], "extra": range(5)})
    expected |= {"lang": ["a", None, "c", "d", "e"], "extra": [0, 1, 2, 3, 4]}
    for _ in range(2):
        assert index.get(named(ids)).to_pydict() == expected
        assert found_by(index, "year = 2003 AND lang IS NULL") == set(named([3]))
        index.compact()
    assert np.allclose(index.reconstruct(named([3])), vectors[6:7], atol=1e-3)


def test_an_upsert_without_attributes_into_an_index_without_them(vectors, named):
    index = pcpq.build(vectors, named(np.arange(N)), metric="dot")
    index.upsert(vectors[:3], named([5, 6, N]))
    with pytest.raises(ValueError, match="no attributes"):
        index.get(named([5]))


def test_an_upsert_that_comes_after_an_update_keeps_the_new_values(index, vectors, named, monkeypatch):
    prepare, calls = changes.Insertion.prepare, []

    def prepared(self, contents, threads):
        prepare(self, contents, threads)
        calls.append(1)
        index.update(named([3]), {"lang": ["updated"]})

    monkeypatch.setattr(changes.Insertion, "prepare", prepared)
    index.upsert(vectors[:1], named([3]), attributes={"year": [1]})
    assert index.get(named([3])).to_pydict() == {"lang": ["updated"], "year": [1]}


def test_a_removal_by_condition_removes_what_it_holds_for(index, named, tmp_path):
    assert index.remove(where="lang = 'en' AND year < 2100") == 50
    assert index.remove(where="lang = 'en' AND year < 2100") == 0
    assert len(index) == N - 50
    assert found_by(index, "year < 2100") == set(named(np.arange(1, 100, 2)))
    index.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        assert writer.remove(where="lang IS NULL OR year > 0") == N - 50
        writer.commit()
        assert len(writer) == 0
        assert writer.remove(where="year > 0") == 0
    reader = pcpq.open(tmp_path / "index")
    assert len(reader) == 0
    with pytest.raises(ValueError, match="reading only"):
        reader.remove(where="year > 0")


def test_a_removal_takes_ids_or_a_condition(index, vectors, named):
    for arguments in ({}, {"ids": named([3]), "where": "year > 0"}):
        with pytest.raises(ValueError, match="either ids or where"):
            index.remove(**arguments)
    with pytest.raises(ValueError, match="where is 'nope = 1'"):
        index.remove(where="nope = 1")
    with pytest.raises(ValueError, match="allows a length of 2"):
        index.remove(where="year > 0", where_limits=pcpq.WhereLimits(length=2))
    with pytest.raises(ValueError, match="no attributes"):
        pcpq.build(vectors, metric="dot").remove(where="year > 0")
    assert len(index) == N


def test_a_removal_by_condition_removes_rows_that_come_while_it_is_evaluated(
    index, vectors, named, monkeypatch
):
    prepare, calls = changes.ConditionalRemoval.prepare, []

    def prepared(self, contents):
        prepare(self, contents)
        calls.append(1)
        if len(calls) <= 3:
            index.add(vectors[:1], named([N + len(calls)]), attributes={"year": [5]})

    monkeypatch.setattr(changes.ConditionalRemoval, "prepare", prepared)
    assert index.remove(where="year = 5") == 3
    assert len(calls) == 4
    assert len(index) == N
