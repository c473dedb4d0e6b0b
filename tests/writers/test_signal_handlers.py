"""Signal handlers, which run in the thread that they interrupt, may change and search the index."""

import signal
import sys
import threading
from contextlib import contextmanager

import pytest
from background import Background, held_commit, returns
from fitted_index import MANY, QUERIES, VECTORS, fitted, holds

import pcpq
import pcpq.store.changes
import pcpq.store.state


@contextmanager
def handler(call):
    """Call a function at a signal; yield a list of what it returned or raised."""
    found = []

    def handle(number, frame):
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        yield found
    finally:
        signal.signal(signal.SIGUSR1, before)


def signalling(monkeypatch, module, name, times=1):
    """Replace a function of a module by one that raises a signal in its first calls."""
    real, left = getattr(module, name), [times]

    def interrupted(*arguments, **named):
        result = real(*arguments, **named)
        if left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGUSR1)
        return result

    monkeypatch.setattr(module, name, interrupted)


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("what", ["add", "remove", "upsert", "commit"])
def test_a_change_by_a_signal_handler_within_a_change_is_not_lost(what, times, tmp_path, monkeypatch):
    index, path, count = fitted(), tmp_path / "index", 0
    index.add(VECTORS[:100])
    index.save(path)
    expected = dict(enumerate(VECTORS[:100]))
    with pcpq.open(path, mode="a") as writer:

        def change():
            nonlocal count
            count += 1
            mine = count  # another signal may come
            if what == "add":
                (given,) = writer.add(VECTORS[mine + 200 :][:1])
                expected[int(given)] = VECTORS[mine + 200]
            elif what == "remove":
                assert writer.remove([mine]) == 1
                del expected[mine]
            elif what == "upsert":
                writer.upsert(VECTORS[mine + 500 :][:1], [mine])
                expected[mine] = VECTORS[mine + 500]
            else:
                writer.commit()

        writer.remove([99])
        del expected[99]
        with handler(change) as handled:
            # Within the lock: the ids are known to be new, and are about to be in the snapshot.
            signalling(monkeypatch, pcpq.store.changes.Insertion, "_there", times)
            given = writer.add(VECTORS[600:610])
        assert handled == [None] * count
        assert count == (min(times, 2) if what == "commit" else times)  # the second has nothing to commit
        assert not expected.keys() & set(given.tolist())
        expected.update(zip(given.tolist(), VECTORS[600:610], strict=True))
        holds(writer, expected)
        writer.commit()
    holds(pcpq.open(path), expected)


def test_a_compaction_within_a_compaction_is_refused(monkeypatch):
    index = fitted()
    index.add(VECTORS[:30])
    index.add(VECTORS[30:50])
    with handler(index.compact) as handled:
        signalling(monkeypatch, pcpq.store.state, "merge")
        index.compact()
    assert len(handled) == 1
    assert isinstance(handled[0], ValueError)
    assert "being merged by this thread; try again afterwards" in str(handled[0])
    assert index.stats()["segments"] == 1
    holds(index, dict(enumerate(VECTORS[:50])))
    index.add(VECTORS[50:60])
    index.compact()
    assert index.stats()["segments"] == 1


def test_an_interruption_in_any_line_of_a_condition_leaves_no_lock_taken():
    """Conditions are written in Python: an interruption may come in the middle of their methods."""
    for at in range(100):
        index, left = fitted(), at
        index.add(VECTORS[:30])
        index.add(VECTORS[30:50])

        def interrupt(frame, event, argument):
            nonlocal left
            if frame.f_code.co_filename != threading.__file__:
                return None
            if event == "line":
                left -= 1
                if left == -1:
                    raise KeyboardInterrupt
            return interrupt

        before = sys.gettrace()
        sys.settrace(interrupt)
        try:
            index.compact()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        returns(index.remove, [7])
        returns(index.compact)
        holds(index, {place: VECTORS[place] for place in range(50) if place != 7})
        if left >= 0:
            break
    assert 3 < at < 99


def test_a_compaction_after_an_addition_that_merges_in_the_background_is_not_refused(monkeypatch):
    merging, real = Background(), pcpq.store.state.merge

    def merge(parts):
        merging.wait()
        return real(parts)

    index = fitted()
    monkeypatch.setattr(pcpq.store.state, "MERGED_AT_ONCE", 0)
    monkeypatch.setattr(pcpq.store.state, "merge", merge)
    for start in range(0, 120, 40):
        index.add(VECTORS[start : start + 40])
    assert merging.waiting.wait(30)
    merging.go_on.set()
    index.compact()
    assert index.stats()["segments"] == 1


def test_a_search_for_a_recall_within_another_measures_it_too(monkeypatch):
    index = fitted()
    index.add(MANY)
    with handler(lambda: index.search(QUERIES[0], target_recall=0.9)) as handled:
        signalling(monkeypatch, pcpq.index, "measure_index")
        found = index.search(QUERIES[0], target_recall=0.9)
    assert handled[0].ids.tolist() == found.ids.tolist()


@pytest.mark.parametrize("what", ["commit", "search"])
def test_a_handler_within_a_change_may_wait_for_a_thread_that_commits_or_measures(what, tmp_path, monkeypatch):
    """Were that thread to wait for the lock of the change, both would wait for ever."""
    index, path, other = fitted(), tmp_path / "index", Background()
    index.add(MANY)
    index.save(path)
    real_apply, real_measure, called = pcpq.store.changes.Removal.apply, pcpq.index.measure_index, []
    with pcpq.open(path, mode="a") as writer:

        def search():
            return writer.search(QUERIES[0], target_recall=0.9)

        def apply(removal, contents):
            if not called:
                called.append(None)
                other.go_on.set()
                called[0] = writer.commit() if what == "commit" else search()  # as a handler would
            return real_apply(removal, contents)

        def measure(*arguments):
            if not called:
                other.wait()
            return real_measure(*arguments)

        with held_commit(monkeypatch, other) if what == "commit" else monkeypatch.context() as patch:
            if what == "search":
                patch.setattr(pcpq.index, "measure_index", measure)
            writer.add(VECTORS[:3])
            other.start(writer.commit if what == "commit" else search)
            monkeypatch.setattr(pcpq.store.changes.Removal, "apply", apply)
            assert returns(writer.remove, [1, 2]) == 2
            other.finish()
        assert len(writer) == 3001
        writer.commit()
    assert len(pcpq.open(path)) == 3001
