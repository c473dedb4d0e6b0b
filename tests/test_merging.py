"""Which parts are merged, and what goes on meanwhile."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from fitted_index import QUERIES, VECTORS, fitted, holds, number, word

import pcpq
import pcpq.segment.segment
import pcpq.store.state
from pcpq.segment.part import Part
from pcpq.store.state import LEAST_MERGED, REMOVED, SIMILAR, worth_merging


def wait_for_merges(state):
    with state._merge_ended:
        assert state._merge_ended.wait_for(lambda: not state._merging, timeout=20)


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
        ([100] * LEAST_MERGED, [100] * LEAST_MERGED),
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
    """Make merges run in the background and wait there for an event; record their threads."""
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
    assert "could not be merged" in caplog.text
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
    index._state.replace(shown, "int", 30)
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
