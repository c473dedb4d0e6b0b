import copy
import multiprocessing
import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from reference import exact

import pcpq
import pcpq.segment.segment
import pcpq.store.state
from pcpq.search.snapshot import Part
from pcpq.store.state import ALIKE, REMOVED, SIMILAR, worth_merging

N_LISTS = 3
DIMENSIONS = 8


def random_vectors(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, DIMENSIONS)).astype(np.float32)


VECTORS, QUERIES = random_vectors(1200), random_vectors(4, seed=1)
FITTED = {}


def fitted(metric="euclidean", keep="float32"):
    """An index without vectors; fitted once a metric and precision."""
    if (metric, keep) not in FITTED:
        FITTED[metric, keep] = pcpq.Index(metric=metric, keep=keep, n_lists=N_LISTS).fit(VECTORS)
    return copy.copy(FITTED[metric, keep])


def holds(index, expected, queries=QUERIES, metric="euclidean"):
    """Assert that an index is a dict of vectors, one by one and in searches."""
    assert len(index) == len(expected)
    found = index.search(queries, k=len(expected) + 2, probes=N_LISTS, rerank=10_000)
    nobody = None if found.ids.dtype == object else -1
    assert found.ids[:, len(expected) :].tolist() == [[nobody] * 2] * len(queries)
    if not expected:
        return
    keys, vectors = list(expected), np.stack(list(expected.values()))
    scores, rows = exact(vectors, queries, metric, len(expected))
    assert found.ids[:, : len(expected)].tolist() == [[keys[row] for row in some] for some in rows]
    assert np.allclose(found.scores[:, : len(expected)], scores, rtol=1e-5, atol=1e-5)
    assert np.array_equal(index.reconstruct(keys), vectors)


def wait_for_merges(state):
    with state._free:
        assert state._free.wait_for(lambda: not state._busy, timeout=20)


def number(place):
    return 3 * place


def word(place):
    return "" if place == 0 else "é漢"[place % 2] * (place % 3) + str(place)


class AgainstADict(RuleBasedStateMachine):
    """An index and a dict of what it must hold."""

    metric, name = "euclidean", staticmethod(number)
    places = st.integers(0, 59)
    many = st.lists(places, max_size=45, unique=True)

    @initialize(seed=st.integers(0, 1000))
    def start(self, seed):
        self.generator = np.random.default_rng(seed)
        self.index, self.expected = fitted(self.metric), {}

    def new(self, count):
        return self.generator.normal(size=(count, DIMENSIONS)).astype(np.float32)

    def ids_of(self, places):
        return [self.name(place) for place in places]

    @rule(places=many)
    def add(self, places):
        ids = self.ids_of(places)
        known = [some for some in ids if some in self.expected]
        vectors = self.new(len(ids))
        if known:
            with pytest.raises(ValueError, match="is in the index already"):
                self.index.add(vectors, ids)
            ids = [some for some in ids if some not in self.expected]
            vectors = vectors[: len(ids)]
        if ids:
            assert self.index.add(vectors, ids).tolist() == ids
            self.expected.update(zip(ids, vectors, strict=True))

    @rule(places=many.filter(len))
    def upsert(self, places):
        ids = self.ids_of(places)
        vectors = self.new(len(ids))
        assert self.index.upsert(vectors, ids).tolist() == ids
        self.expected.update(zip(ids, vectors, strict=True))

    @rule(places=st.lists(places, max_size=30))
    def remove(self, places):
        ids = self.ids_of(places)
        there = {some for some in ids if some in self.expected}
        assert self.index.remove(ids) == len(there)
        for some in there:
            del self.expected[some]

    @rule()
    def remove_most(self):
        gone = list(self.expected)[: -(len(self.expected) // 8) or None]
        assert self.index.remove(gone) == len(gone)
        for some in gone:
            del self.expected[some]

    @rule()
    def compact(self):
        self.index.compact()
        stats = self.index.stats()
        assert stats["segments"] == (1 if self.expected else 0)
        assert stats["removed"] == 0

    @rule()
    def go_on_with_a_pickle(self):
        self.index = pickle.loads(pickle.dumps(self.index))

    @precondition(lambda self: self.expected)
    @rule(places=many)
    def filter(self, places):
        ids = self.ids_of(places)
        allowed = {some: row for some, row in self.expected.items() if some in set(ids)}
        for options in ({"filter": ids}, {"exclude": [some for some in self.expected if some not in allowed]}):
            found = self.index.search(QUERIES, k=len(allowed) + 1, **options).ids
            assert set(found[:, -1].tolist()) <= {-1, None}
            if allowed:
                rows = exact(np.stack(list(allowed.values())), QUERIES, self.metric, len(allowed))[1]
                keys = list(allowed)
                assert found[:, :-1].tolist() == [[keys[row] for row in some] for some in rows]

    @invariant()
    def is_the_dict(self):
        holds(self.index, self.expected, metric=self.metric)
        for place in range(60):
            assert (self.name(place) in self.index) == (self.name(place) in self.expected)
        assert "nobody" not in self.index
        assert 10_000 not in self.index
        stats = self.index.stats()
        assert stats["vectors"] == len(self.expected)
        assert stats["removed"] <= REMOVED * (stats["removed"] + stats["vectors"])


class WordsAgainstADict(AgainstADict):
    metric, name = "dot", staticmethod(word)


for machine in (AgainstADict, WordsAgainstADict):
    machine.TestCase.settings = settings(
        max_examples=15, stateful_step_count=20, derandomize=True, deadline=None, database=None
    )
TestNumbersAgainstADict = AgainstADict.TestCase
TestWordsAgainstADict = WordsAgainstADict.TestCase


@pytest.mark.parametrize("size", [1, 20])
def test_many_small_additions_leave_few_parts(size):
    index, most = fitted(), 0
    for start in range(0, 100 * size, size):
        index.add(VECTORS[start % 1000 : start % 1000 + size])
        most = max(most, index.stats()["segments"])
    assert most <= 12
    assert len(index) == 100 * size
    assert np.array_equal(index.reconstruct(np.arange(100 * size)), VECTORS[np.arange(100 * size) % 1000])


def test_rows_are_not_written_again_with_every_addition(monkeypatch):
    written = []

    def counted(parts):
        written.append(sum(part.count for part in parts))
        return merge(parts)

    merge = pcpq.store.state.merge
    monkeypatch.setattr(pcpq.store.state, "merge", counted)
    index = fitted()
    for start in range(0, 1200, 4):
        index.add(VECTORS[start : start + 4])
    # 300 additions: made one each time, that would be 150 times 1200.
    assert 0 < sum(written) < 12 * 1200


def part_of(count, removed=0):
    """A part of which only the numbers count."""

    class Rows:
        def __len__(self):
            return count

    return Part(Rows(), count - removed)


@pytest.mark.parametrize(
    ("parts", "chosen"),
    [
        ([], []),
        ([100], []),
        ([100, 100], []),
        ([100] * ALIKE, [100] * ALIKE),
        ([10, 10, 10, 1000], [10, 10, 10]),
        ([1000, 10, 10, 10], [10, 10, 10]),
        ([1, 1, 1000], []),
        ([10, 10, 20 * SIMILAR], [10, 10, 20 * SIMILAR]),
        ([10, 10, 20 * SIMILAR + 1], []),
        ([10, 50, 300, 2000], []),
    ],
)
def test_parts_of_similar_size_are_worth_merging(parts, chosen):
    found = sorted(part.count for part in worth_merging([part_of(count) for count in parts]))
    assert found == chosen


def test_more_than_a_quarter_removed_is_worth_merging():
    parts = [part_of(1000, 240), part_of(10, 10)]
    assert worth_merging(parts) == ()
    assert worth_merging([part_of(1000, 250)]) == ()
    fuller = [part_of(1000, 260), part_of(20)]
    assert worth_merging(fuller) == tuple(fuller)


@pytest.mark.parametrize("by", ["remove", "upsert"])
def test_an_index_compacts_itself_when_a_quarter_is_gone(by):
    index, expected = fitted(), {}
    index.add(VECTORS[:400])
    expected.update(enumerate(VECTORS[:400]))
    for start in range(0, 400, 50):
        before = index.stats()["removed"]
        if by == "remove":
            index.remove(np.arange(start, start + 50))
            for place in range(start, start + 50):
                del expected[place]
        else:
            index.upsert(VECTORS[400 + start : 450 + start], np.arange(start, start + 50))
            expected.update(zip(range(start, start + 50), VECTORS[400 + start : 450 + start], strict=True))
        stats = index.stats()
        rows = stats["removed"] + len(index)
        assert stats["removed"] <= REMOVED * rows
        assert stats["removed"] in (0, before + 50) or by == "upsert"
        if start == 0:
            assert stats["removed"] == 50
        holds(index, expected, QUERIES[:2])


@pytest.fixture
def held_merge(monkeypatch):
    """Merges go to the background and wait there to be let go; tells who merges."""
    held = SimpleNamespace(threads=[], begun=threading.Event(), go=threading.Event())
    real = pcpq.store.state.merge

    def merge(parts):
        merged = real(parts)
        held.threads.append(threading.current_thread())
        held.begun.set()
        assert held.go.wait(20)
        return merged

    monkeypatch.setattr(pcpq.store.state, "MERGED_AT_ONCE", 0)
    monkeypatch.setattr(pcpq.store.state, "merge", merge)
    yield held
    held.go.set()


@pytest.mark.parametrize("name", [number, word])
def test_writers_go_on_while_parts_are_merged_in_the_background(name, held_merge):
    index, expected = fitted(), {}

    def add(some, places, call=index.add):
        call(some, [name(place) for place in places])
        expected.update(zip([name(place) for place in places], some, strict=True))

    def remove(places):
        assert index.remove([name(place) for place in places]) == len(places)
        for place in places:
            del expected[name(place)]

    for start in range(0, 120, 40):
        add(VECTORS[start : start + 40], range(start, start + 40))
    assert held_merge.begun.wait(20)
    assert held_merge.threads[0] is not threading.current_thread()
    assert index.stats()["segments"] == 3
    remove(range(0, 50, 7))
    add(VECTORS[200:210], range(60, 70), index.upsert)
    add(VECTORS[210:230], range(200, 220))
    add(VECTORS[230:233], range(0, 21, 7))
    remove(range(80, 120))
    remove(range(210, 215))
    holds(index, expected)
    held_merge.go.set()
    wait_for_merges(index._state)
    holds(index, expected)
    index.compact()
    assert index.stats()["segments"] == 1
    holds(index, expected)


def test_compact_waits_for_a_merge_in_the_background(held_merge):
    index = fitted()
    for start in range(0, 120, 40):
        index.add(VECTORS[start : start + 40])
    assert held_merge.begun.wait(20)
    index.add(VECTORS[120:150])
    compacting = threading.Thread(target=index.compact, daemon=True)
    compacting.start()
    compacting.join(0.2)
    assert compacting.is_alive()
    held_merge.go.set()
    compacting.join(20)
    assert not compacting.is_alive()
    assert index.stats()["segments"] == 1
    holds(index, dict(enumerate(VECTORS[:150])))


def test_a_merge_that_fails_lets_the_next_one_begin(monkeypatch, caplog):
    index = fitted()
    real, failed = pcpq.store.state.merge, []

    def fail(parts):
        failed.append(len(parts))
        raise MemoryError("no room")

    monkeypatch.setattr(pcpq.store.state, "merge", fail)
    index.add(VECTORS[:10])
    index.add(VECTORS[10:20])
    index.add(VECTORS[20:30])  # which is there, whatever comes of the merge
    assert failed == [3]
    assert "could not be made one" in caplog.text
    holds(index, dict(enumerate(VECTORS[:30])))
    monkeypatch.setattr(pcpq.store.state, "merge", real)
    index.add(VECTORS[30:40])
    assert index.stats()["segments"] == 1
    holds(index, dict(enumerate(VECTORS[:40])))


def test_a_merge_that_ends_after_a_new_fit_changes_nothing(held_merge):
    index = fitted()
    for start in range(0, 120, 40):
        index.add(VECTORS[start : start + 40])
    assert held_merge.begun.wait(20)
    old = index._state
    index.fit(VECTORS[:600])
    index.add(VECTORS[600:640])
    held_merge.go.set()
    wait_for_merges(old)
    holds(index, dict(enumerate(VECTORS[600:640])))
    assert index.stats()["segments"] == 1


def test_a_merge_by_what_was_trained_before_is_dropped(held_merge):
    index, other = fitted(), pcpq.Index(metric="euclidean", keep="float32", n_lists=2).fit(VECTORS[:300])
    for start in range(0, 120, 40):
        index.add(VECTORS[start : start + 40])
    assert held_merge.begun.wait(20)
    other.add(VECTORS[:30])
    shown = other._state.snapshot
    index._state.show(shown, "int", 30)
    held_merge.go.set()
    wait_for_merges(index._state)
    assert index._state.snapshot is shown
    holds(index, dict(enumerate(VECTORS[:30])))


def test_searches_during_a_refit_see_one_kind_of_codes(monkeypatch):
    """Vectors come while others are encoded anew; they are a thousand times longer, so units differ."""
    index, expected, seen = fitted(), dict(enumerate(VECTORS[:200])), []
    index.add(VECTORS[:200])
    long = 1000 * VECTORS[200:260]
    index.upsert(1000 * VECTORS[260:400], np.arange(140))
    expected.update(enumerate(1000 * VECTORS[260:400]))
    real = pcpq.store.state.encode_again

    def encode_again(*arguments):
        holds(index, expected)
        encoded = real(*arguments)
        if not seen:
            ids = np.arange(500, 560)
            index.add(long, ids)
            expected.update(zip(ids.tolist(), long, strict=True))
            assert index.remove([3, 150]) == 2
            del expected[3], expected[150]
        seen.append(len(index))
        holds(index, expected)
        return encoded

    monkeypatch.setattr(pcpq.store.state, "encode_again", encode_again)
    index.refit().result(timeout=20)
    assert seen == [258, 258]
    holds(index, expected)


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
            index._state._busy |= index._state.snapshot.names
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
    """A thread whose search prepares a part and stays there until it may go on: the thread, and both events."""
    begun, done = threading.Event(), threading.Event()

    def searcher(**arguments):
        if threading.current_thread() is thread:
            begun.set()
            done.wait(30)
        return pcpq._core.Searcher(**arguments)

    monkeypatch.setattr(
        pcpq.segment.segment, "_core", SimpleNamespace(**vars(pcpq._core) | {"Searcher": searcher})
    )
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
    """Whoever searches one index does not wait for the first search of another."""
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
    with pytest.raises(ValueError, match="empty"):
        index.add(VECTORS[:0])
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
