"""Additions: other writers do not wait while one encodes its vectors, and no change is lost."""

import threading

import numpy as np
import pytest
from background import Background, batches, returns
from fitted_index import MANY, N_LISTS, QUERIES, VECTORS, fitted, holds, number, word
from reference import exact

import pcpq
import pcpq.store.state


@pytest.mark.parametrize("name", [number, word])
def test_writers_and_searches_go_on_while_an_addition_waits_for_its_vectors(name, tmp_path):
    ids = [name(place) for place in range(len(MANY))]
    index, path = fitted(), tmp_path / "index"
    index.add(MANY[:2500], ids[:2500])
    index.save(path)
    expected = dict(zip(ids[:2500], MANY[:2500], strict=True))
    addition = Background()
    with pcpq.open(path, mode="a") as writer:
        addition.start(writer.add, batches(addition, MANY[2600:]), ids[2600:])
        assert returns(writer.remove, ids[:3]) == 3
        returns(writer.upsert, -MANY[5:7], ids[3:5])
        returns(writer.add, MANY[2500:2600], ids[2500:2600])
        returns(writer.commit)
        assert returns(writer.search, QUERIES, target_recall=0.9).ids.shape == (4, 10)
        assert writer._state.snapshot.recall is not None
        for gone in ids[:3]:
            del expected[gone]
        expected.update(zip(ids[3:5], -MANY[5:7], strict=True))
        expected.update(zip(ids[2500:2600], MANY[2500:2600], strict=True))
        holds(writer, expected)
        holds(pcpq.open(path), expected)
        returns(writer.compact)
        assert addition.finish().tolist() == ids[2600:]
        holds(pcpq.open(path), expected)
        expected.update(zip(ids[2600:], MANY[2600:], strict=True))
        holds(writer, expected)
        writer.commit()
    opened = pcpq.open(path)
    opened.verify()
    holds(opened, expected)
    assert opened._state.snapshot.recall is not None


def test_vectors_may_wait_for_a_thread_that_removes():
    index = fitted()
    index.add(VECTORS[:50])

    def after_a_removal():
        yield VECTORS[50:60]
        remover = threading.Thread(target=index.remove, args=([7],), daemon=True)
        remover.start()
        remover.join(30)
        assert not remover.is_alive()
        yield VECTORS[60:70]

    assert returns(index.add, after_a_removal()).tolist() == list(range(50, 70))
    holds(index, {place: VECTORS[place] for place in range(70) if place != 7})


def test_vectors_may_come_from_changes_of_the_same_index():
    index = fitted()

    def changing():
        assert index.add(VECTORS[:20]).tolist() == list(range(20))
        yield VECTORS[20:30]
        assert index.remove([3]) == 1
        index.compact()

    def progress(done, total):
        index.upsert(VECTORS[100:101], [4])

    assert returns(index.add, changing(), progress=progress).tolist() == list(range(20, 30))
    expected = {place: VECTORS[place] for place in range(30) if place != 3}
    holds(index, expected | {4: VECTORS[100]})


@pytest.mark.parametrize("name", [None, word])
def test_additions_at_the_same_time_get_different_numbers(name):
    index, background = fitted(), [Background() for _ in range(4)]
    for part, addition in enumerate(background):
        vectors = VECTORS[50 * part : 50 * part + 50]
        ids = None if name is None else [word(place) for place in range(50 * part, 50 * part + 50)]
        addition.start(index.add, batches(addition, vectors), ids)
    for addition in background:
        addition.go_on.set()
    given = [addition.finish() for addition in background]
    expected = {
        one: VECTORS[50 * part + place] for part, some in enumerate(given) for place, one in enumerate(some)
    }
    holds(index, expected)
    numbers = np.concatenate([part.segment.ids for part in index._state.snapshot.parts])
    assert np.array_equal(np.sort(numbers), np.arange(200))
    index.compact()  # refuses numbers that are there twice
    holds(index, expected)
    if name is None:
        assert index.add(VECTORS[:1]).tolist() == [200]


def test_numbers_are_counted_up_from_those_that_were_given_meanwhile():
    index, addition = fitted(), Background()
    addition.start(index.add, batches(addition, VECTORS[:10]))
    index.add(VECTORS[10:12], [70, 3])
    assert addition.finish().tolist() == list(range(71, 81))


@pytest.mark.parametrize("name", [number, word])
def test_an_id_that_two_threads_add_is_there_once(name):
    index, addition = fitted(), Background()
    ids = [name(place) for place in range(20)]
    addition.start(index.add, batches(addition, VECTORS[:20]), ids)
    index.add(VECTORS[20:23], ids[7:10])
    with pytest.raises(ValueError, match=r"id .* is in the index already"):
        addition.finish()
    holds(index, dict(zip(ids[7:10], VECTORS[20:23], strict=True)))


@pytest.mark.parametrize("name", [number, word])
def test_the_last_of_two_upserts_stays(name):
    index, upsert = fitted(), Background()
    ids = [name(place) for place in range(40)]
    index.add(VECTORS[:40], ids)
    upsert.start(index.upsert, batches(upsert, VECTORS[100:120]), ids[:20])
    index.upsert(VECTORS[200:220], ids[10:30])
    index.remove(ids[5:15])
    upsert.finish()
    vectors = [*VECTORS[100:120], *VECTORS[210:220], *VECTORS[30:40]]
    holds(index, dict(zip(ids, vectors, strict=True)))


@pytest.mark.parametrize("ids", [[1, 2], ["a", "b"]])
def test_the_first_addition_to_end_says_what_ids_are(ids):
    index, addition = fitted(), Background()
    other = ["x", "y"] if ids == [1, 2] else [8, 9]
    addition.start(index.add, batches(addition, VECTORS[:2]), other)
    index.add(VECTORS[2:4], ids)
    with pytest.raises(ValueError, match="an index has one kind"):
        addition.finish()
    holds(index, dict(zip(ids, VECTORS[2:4], strict=True)))


def test_attributes_are_compared_with_those_that_came_meanwhile():
    index, addition = fitted(), Background()
    addition.start(index.add, batches(addition, VECTORS[:2]), [0, 1], attributes={"place": ["here", "there"]})
    index.add(VECTORS[2:4], [2, 3], attributes={"place": [2, 3]})
    with pytest.raises(ValueError, match="attributes differ"):
        addition.finish()
    assert index.get([2, 3])["place"].to_pylist() == [2, 3]
    assert len(index) == 2


@pytest.mark.parametrize("metric", ["dot", "cosine", "euclidean"])
@pytest.mark.parametrize("keep", ["int8", "float32"])
@pytest.mark.parametrize("ids", ["counted", "given", "words"])
def test_an_addition_that_ends_after_a_refit_is_encoded_again(metric, keep, ids):
    vectors = 5 + VECTORS if metric == "cosine" else VECTORS
    index, addition = pcpq.Index(metric=metric, keep=keep, n_lists=N_LISTS).fit(vectors), Background()
    kinds = {"counted": np.arange(300), "given": 7 * np.arange(300), "words": [word(i) for i in range(300)]}
    all_ids = kinds[ids]
    names = None if ids == "counted" else all_ids
    index.add(vectors[:200], None if names is None else names[:200], attributes={"n": np.arange(200)})
    old = index._state.snapshot.trained
    addition.start(
        index.add,
        batches(addition, vectors[200:300]),
        None if names is None else names[200:],
        attributes={"n": np.arange(200, 300)},
    )
    returns(index.refit().result)
    assert index._state.snapshot.trained is not old
    assert list(addition.finish()) == list(all_ids[200:])
    snapshot = index._state.snapshot
    assert {id(part.segment.trained) for part in snapshot.parts} == {id(snapshot.trained)}
    rows = exact(vectors[:300], vectors[::10], metric, 1)[1][:, 0]
    found = index.search(vectors[::10], k=1, probes=N_LISTS, rerank=1000).ids[:, 0]
    if keep == "float32":
        assert found.tolist() == [all_ids[row] for row in rows]
        if metric != "cosine":
            assert np.array_equal(index.reconstruct(all_ids), vectors[:300])
    else:
        assert (found == np.array(all_ids)[rows]).mean() > 0.8
    assert index.get(all_ids)["n"].to_pylist() == list(range(300))
    index.compact()
    assert len(index) == 300


def test_a_refit_takes_what_comes_while_it_encodes_what_came(monkeypatch):
    index, expected = fitted(), dict(enumerate(VECTORS[:200]))
    index.add(VECTORS[:200])
    real, encoded = pcpq.store.state.encode_again, []

    def encode_again(trained, parts, threads):
        encoded.append(sum(part.count for part in parts))
        step = len(encoded)
        if step < 4:
            ids = np.arange(1000 * step, 1000 * step + 10)
            returns(index.add, VECTORS[200 + 10 * step :][:10], ids)
            expected.update(zip(ids.tolist(), VECTORS[200 + 10 * step :][:10], strict=True))
            assert returns(index.remove, [step, 1000 * step]) == 2
            del expected[step], expected[1000 * step]
        return real(trained, parts, threads)

    monkeypatch.setattr(pcpq.store.state, "encode_again", encode_again)
    index.refit().result(timeout=30)
    assert encoded[0] == 200
    assert len(encoded) == 4
    holds(index, expected)
    snapshot = index._state.snapshot
    assert {id(part.segment.trained) for part in snapshot.parts} == {id(snapshot.trained)}
