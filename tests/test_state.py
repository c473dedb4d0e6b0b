"""What an index says of its vectors, empty indexes, threads that write at once."""

import copy
import pickle
import threading

import numpy as np
import pytest
from fitted_index import DIMENSIONS, N_LISTS, QUERIES, VECTORS, fitted, holds

import pcpq
import pcpq.segment.segment
import pcpq.store.state


def test_stats_count_parts_and_what_was_removed(monkeypatch):
    monkeypatch.setattr(pcpq.store.state, "worth_merging", lambda parts: ())
    index = fitted("dot", "int16")
    stats = index.stats()
    assert (stats["vectors"], stats["segments"], stats["removed"], stats["drift"]) == (0, 0, 0, 1.0)
    for start, end in ((0, 400), (400, 430), (430, 431)):
        index.add(VECTORS[start:end])
    stats = index.stats()
    assert (stats["vectors"], stats["segments"], stats["removed"]) == (431, 3, 0)
    assert (stats["lists"], stats["dimensions"]) == (N_LISTS, DIMENSIONS)
    index.remove(np.arange(390, 410))
    index.upsert(VECTORS[500:503], [0, 1, 2])
    stats = index.stats()
    assert (stats["vectors"], stats["segments"], stats["removed"]) == (411, 4, 23)
    index.remove([430])  # all of a part
    assert index.stats()["segments"] == 3
    index.compact()
    stats = index.stats()
    assert (stats["vectors"], stats["segments"], stats["removed"]) == (410, 1, 0)
    assert stats["bytes_per_vector"]["kept"] == 2 * DIMENSIONS + 4
    assert stats["bytes_per_vector"]["ids"] == 8


@pytest.mark.parametrize("metric", ["dot", "cosine", "euclidean"])
def test_drift_tells_vectors_that_lie_elsewhere(metric):
    generator = np.random.default_rng(4)
    # Around one direction, so that there is elsewhere for cosine too.
    near, more = (0.2 * generator.normal(size=(2, 1500, DIMENSIONS)) + np.eye(DIMENSIONS)[0]).astype(np.float32)
    index = pcpq.Index(metric=metric, n_lists=N_LISTS).fit(near)
    index.add(more)
    assert 0.9 < index.stats()["drift"] < 1.1
    index.remove(np.arange(0, 300))
    assert 0.9 < index.stats()["drift"] < 1.1
    elsewhere = more[:700] - 2 * np.eye(DIMENSIONS, dtype=np.float32)[0]
    shifted = index.add(elsewhere)
    assert index.stats()["drift"] > 2
    again = copy.copy(index)
    again.compact()
    fresh = pcpq.Index(metric=metric, n_lists=N_LISTS).fit(near)
    fresh.add(np.concatenate([more[300:], elsewhere]))
    assert again.stats()["drift"] == pytest.approx(fresh.stats()["drift"], rel=0.02)
    index.remove(shifted)
    assert 0.9 < index.stats()["drift"] < 1.1


def test_vectors_come_one_by_one():
    index = fitted()
    for place in range(150):
        assert index.add(VECTORS[place : place + 1]).tolist() == [place]
        assert index.search(VECTORS[place], k=1).ids.tolist() == [place]
    holds(index, dict(enumerate(VECTORS[:150])))


def test_vectors_go_one_by_one():
    index = fitted()
    index.add(VECTORS[:80])
    order = np.random.default_rng(2).permutation(80).tolist()
    for place, gone in enumerate(order):
        assert index.remove(gone) == 1
        assert gone not in index
        left = {some: VECTORS[some] for some in sorted(order[place + 1 :])}
        holds(index, left, QUERIES[:1])


@pytest.mark.parametrize("metric", ["dot", "cosine", "euclidean"])
def test_an_index_without_vectors_finds_nothing(metric):
    index = fitted(metric)
    worst = np.inf if metric == "euclidean" else -np.inf
    for asked in (QUERIES, QUERIES[0]):
        for options in ({}, {"filter": [1]}, {"exclude": [1]}, {"probes": 1, "rerank": 1}):
            scores, ids = index.search(asked, k=4, **options)
            assert ids.shape == (*asked.shape[:-1], 4)
            assert (ids == -1).all()
            assert (scores == worst).all()
    bound = {"max_distance": 1e9} if metric == "euclidean" else {"min_score": -1e9}
    assert index.search_range(QUERIES, **bound)[0].tolist() == [0] * 5
    assert index.explain(QUERIES[0])["rows_scanned"] == 0
    index.compact()
    assert index.remove([0, 1]) == 0
    assert 0 not in index
    with pytest.raises(KeyError, match="id 7 is not"):
        index.reconstruct([7])
    assert index.reconstruct([]).shape == (0, DIMENSIONS)
    assert len(index.add(VECTORS[:0])) == 0
    assert len(index) == len(copy.copy(index)) == len(pickle.loads(pickle.dumps(index))) == 0


@pytest.mark.parametrize("metric", ["dot", "cosine", "euclidean"])
@pytest.mark.parametrize("keep", [None, "int16"])
def test_more_asked_for_than_there_is(metric, keep):
    index = fitted(metric, keep)
    worst = np.inf if metric == "euclidean" else -np.inf
    there = 0
    for size in (1, 4, 30):
        index.add(VECTORS[there : there + size])
        there += size
        for asked in (QUERIES, QUERIES[0]):
            for options in ({}, {"probes": 1, "rerank": 1}):
                scores, ids = index.search(asked, k=100, **options)
                rows = np.atleast_2d(ids)
                assert np.array_equal(
                    np.sort(rows[:, :there], axis=1), np.tile(np.arange(there), (len(rows), 1))
                )
                assert (ids[..., there:] == -1).all()
                assert (scores[..., there:] == worst).all()
                assert np.isfinite(scores[..., :there]).all()


def test_threads_that_write_at_once_lose_nothing():
    index, found = fitted(), []

    def write(first):
        for start in range(first, first + 60, 6):
            found.append(index.add(VECTORS[start : start + 6]))
            if start % 18 == 0:
                index.compact()

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 60, 120, 180)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(240))
    together = index.reconstruct(np.arange(240))
    assert np.array_equal(np.sort(together[:, 0]), np.sort(VECTORS[:240, 0]))
    assert len(index) == 240


def test_an_addition_that_fails_leaves_the_index_as_it_was():
    index = fitted()
    index.add(VECTORS[:30])
    before = index._state.snapshot

    def broken():
        yield VECTORS[:10]
        raise OSError("the disk is gone")

    bad = VECTORS[:10].copy()
    bad[7, 3] = np.nan
    for vectors, error in ((broken(), OSError), (bad, ValueError), (VECTORS[:5, :3], ValueError)):
        for call in (index.add, lambda some: index.upsert(some, np.arange(10))):
            with pytest.raises(error):
                call(vectors)
            vectors = broken() if error is OSError else vectors
    assert index._state.snapshot is before
    assert index.add(VECTORS[30:31]).tolist() == [30]
    holds(index, dict(enumerate(VECTORS[:31])))
