"""Copies, pickles and forked processes."""

import copy
import multiprocessing
import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from fitted_index import N_LISTS, QUERIES, VECTORS, fitted, number, word
from reference import exact

import pcpq
import pcpq.segment.segment
import pcpq.store.state


@pytest.mark.parametrize("searched", [False, True], ids=["fresh", "searched"])
@pytest.mark.parametrize("name", [number, word])
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))],
    ids=["copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize("keep", [None, "float32"])
def test_copies_answer_alike_and_go_their_own_ways(duplicate, name, searched, keep):
    index = fitted("dot", keep)
    ids = [name(place) for place in range(200)]
    for start, end in ((0, 150), (150, 170), (170, 180)):
        index.add(VECTORS[start:end], ids[start:end])
    index.remove(ids[::9])

    def answer(some):
        return some.search(QUERIES, k=200, probes=N_LISTS, rerank=1000)

    def same(one, other):
        return np.array_equal(one.ids, other.ids) and np.array_equal(one.scores, other.scores)

    if searched:
        answer(index)
        index.search(QUERIES[0], k=3)
        index.search(QUERIES, filter=ids[:9])
    other = duplicate(index)
    before = answer(index)
    assert same(answer(other), before)
    assert other.stats() == index.stats()
    assert repr(other) == repr(index)
    other.remove(ids[:50])
    other.upsert(VECTORS[300:340], ids[90:130])
    other.add(VECTORS[340:350], ids[180:190])
    other.compact()
    changed = answer(other)
    assert same(answer(index), before)
    assert ids[185] in other
    assert ids[185] not in index
    index.add(VECTORS[500:510], ids[190:200])
    index.remove(ids[100:170])
    index.compact()
    assert same(answer(other), changed)
    assert not same(answer(index), before)
    assert ids[195] not in other
    assert other.stats()["segments"] == 1


def test_a_copy_of_an_index_that_is_not_fitted_can_be(tmp_path):
    for other in (copy.copy(pcpq.Index(metric="dot")), pickle.loads(pickle.dumps(pcpq.Index(metric="dot")))):
        assert len(other) == 0
        with pytest.raises(pcpq.NotFittedError):
            other.add(VECTORS[:3])
        assert len(other.fit(VECTORS).add(VECTORS[:3])) == 3


def add_and_search(index, pipe):
    """What a forked process does."""
    index.add(VECTORS[500:520], np.arange(500, 520))
    index.remove([0])
    index.compact()
    pipe.send(index.search(QUERIES, k=30).ids)


def forked_answer(index):
    """What a forked process finds, or None if it hangs."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=add_and_search, args=(index, sender), daemon=True)
    child.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(5) else None
    finally:
        child.kill()
        child.join()
        receiver.close()


@pytest.fixture
def thirty():
    """An index of two parts, and what add_and_search finds in it."""
    index = fitted()
    index.add(VECTORS[:25])
    index.add(VECTORS[25:30])
    expected = dict(enumerate(VECTORS[:30])) | dict(zip(range(500, 520), VECTORS[500:520], strict=True))
    del expected[0]
    rows = exact(np.stack(list(expected.values())), QUERIES, "euclidean", 30)[1]
    return index, np.array(list(expected))[rows]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_writes_although_a_thread_held_the_locks(thirty):
    index, expected = thirty
    held, done = threading.Event(), threading.Event()

    def hold():
        with index._state.writing:
            index._state._merging.update(dict.fromkeys(index._state.snapshot.names))
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(20)
        found = forked_answer(index)
    finally:
        done.set()
        thread.join()
    assert found is not None
    assert np.array_equal(found, expected)
    assert len(index) == 30
    assert 0 in index


def slow_first_search(index, monkeypatch):
    """Return a thread whose search waits while it prepares a part, and the events "begun" and "go on"."""
    begun, done = threading.Event(), threading.Event()

    def searcher(**arguments):
        if threading.current_thread() is thread:
            begun.set()
            done.wait(30)
        return pcpq._core.Searcher(**arguments)

    native = SimpleNamespace(**vars(pcpq._core) | {"Searcher": searcher})
    monkeypatch.setattr(pcpq.segment.segment, "_core", native)
    thread = threading.Thread(target=index.search, args=(QUERIES,))
    return thread, begun, done


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_searches_although_a_thread_was_about_to(thirty, monkeypatch):
    """The first search of a part prepares it; another thread may be in the middle of that."""
    index, expected = thirty
    thread, begun, done = slow_first_search(index, monkeypatch)
    thread.start()
    try:
        assert begun.wait(20)
        found = forked_answer(index)
    finally:
        done.set()
        thread.join()
    assert found is not None
    assert np.array_equal(found, expected)


def test_two_threads_prepare_two_parts_at_the_same_time(monkeypatch):
    """A search of one index does not wait for the first search of another."""
    index, other = fitted(), fitted()
    index.add(VECTORS[:30])
    other.add(VECTORS[:30])
    slow, begun, done = slow_first_search(index, monkeypatch)
    quick = threading.Thread(target=other.search, args=(QUERIES,))
    slow.start()
    assert begun.wait(20)
    quick.start()
    quick.join(3)
    waited = quick.is_alive()
    done.set()
    slow.join()
    quick.join()
    assert not waited


def test_spawned_processes_get_the_index_by_its_pickle(thirty):
    index, _ = thirty
    expected = index.search(QUERIES, k=5)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply_async(index.search, (QUERIES,), {"k": 5}).get(timeout=30)
        assert np.array_equal(found.ids, expected.ids)
        assert np.array_equal(found.scores, expected.scores)
        assert pool.apply_async(index.add, (VECTORS[:2],)).get(timeout=30).tolist() == [30, 31]
    assert len(index) == 30
