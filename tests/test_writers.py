"""Writers in several threads: none waits while another encodes vectors or writes files, and nothing is lost."""

import signal
import sys
import threading
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from fitted_index import N_LISTS, QUERIES, VECTORS, fitted, holds, number, random_vectors, word
from reference import exact

import pcpq
import pcpq.store.changes
import pcpq.store.state
import pcpq.store.store

MANY = random_vectors(3000, seed=3)  # so many that a search measures recall first


def returns(call, *arguments, **named):
    """What a call returns or raises; a failure if it waits for something that does not come."""
    found = []

    def work():
        try:
            found.append(call(*arguments, **named))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert found, "the call waits"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


class Background:
    """A call in a thread of its own, which waits at some point until it may go on."""

    def __init__(self):
        self.waiting, self.go_on = threading.Event(), threading.Event()
        self.result, self._thread = None, None

    def start(self, call, *arguments, **named):
        def work():
            try:
                self.result = call(*arguments, **named)
            except BaseException as error:
                self.result = error

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        assert self.waiting.wait(30)

    def wait(self):
        self.waiting.set()
        assert self.go_on.wait(30)

    def finish(self):
        """Let it go on; what it returned or raised."""
        self.go_on.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def batches(background, vectors):
    """Vectors in two batches; the second comes when it may."""
    half = len(vectors) // 2
    yield vectors[:half]
    background.wait()
    yield vectors[half:]


@contextmanager
def held_commit(monkeypatch, background):
    """A commit waits when its files are written, before the manifest names them."""
    real = pcpq.store.store.replace_file

    def replace_file(*paths):
        background.wait()
        real(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(pcpq.store.store, "replace_file", replace_file)
        yield


# Additions


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


# Commits


@pytest.mark.parametrize("name", [number, word])
def test_changes_go_on_while_a_commit_writes_and_are_in_the_next(name, tmp_path, monkeypatch):
    monkeypatch.setattr(pcpq.store.state, "worth_merging", lambda parts: ())
    ids, path = [name(place) for place in range(300)], tmp_path / "index"
    index = fitted()
    index.add(VECTORS[:100], ids[:100])
    index.save(path)
    commit = Background()
    expected = dict(zip(ids[:100], VECTORS[:100], strict=True))
    with pcpq.open(path, mode="a") as writer:

        def add(places, call=writer.add):
            returns(call, VECTORS[places], [ids[place] for place in places])
            expected.update({ids[place]: VECTORS[place] for place in places})

        def remove(places):
            assert returns(writer.remove, [ids[place] for place in places]) == len(places)
            for place in places:
                del expected[ids[place]]

        add(range(100, 120))
        remove(range(10, 15))
        committed = dict(expected)
        with held_commit(monkeypatch, commit):
            commit.start(writer.commit)
            add(range(120, 130))
            remove([0, 1, 105, 121])  # of a part on disk, of one that is being written, of one that is new
            add([20, 106], writer.upsert)
            holds(writer, expected)
            holds(pcpq.open(path), dict(zip(ids[:100], VECTORS[:100], strict=True)))
            commit.finish()
        holds(writer, expected)
        holds(pcpq.open(path), committed)
        # What was written is used from its files, also where rows went meanwhile.
        from_files = [part.count for part in writer._state.snapshot.parts if part.segment.guard is not None]
        assert sorted(from_files) == [18, 92]
        writer.commit()
        holds(writer, expected)
        holds(pcpq.open(path), expected)
        writer.verify()
        writer.compact()
        holds(writer, expected)
        writer.commit()
    opened = pcpq.open(path)
    opened.verify()
    holds(opened, expected)


def test_a_commit_that_is_overtaken_by_a_compaction_brings_nothing_back(tmp_path, monkeypatch):
    index, path, commit = fitted(), tmp_path / "index", Background()
    index.add(VECTORS[:100])
    index.save(path)
    with pcpq.open(path, mode="a") as writer:
        writer.add(VECTORS[100:150])
        with held_commit(monkeypatch, commit):
            commit.start(writer.commit)
            returns(writer.remove, np.arange(90, 110))
            returns(writer.compact)
            commit.finish()
        expected = {place: VECTORS[place] for place in range(150) if not 90 <= place < 110}
        holds(writer, expected)
        assert writer.stats()["segments"] == 1
        holds(pcpq.open(path), dict(enumerate(VECTORS[:150])))
        writer.commit()
    holds(pcpq.open(path), expected)


def test_a_commit_that_is_overtaken_by_a_refit_is_of_the_codes_before(tmp_path, monkeypatch):
    index, path, commit = fitted(), tmp_path / "index", Background()
    index.add(VECTORS[:100])
    index.save(path)
    with pcpq.open(path, mode="a") as writer:
        writer.add(1000 * VECTORS[100:150])
        expected = dict(enumerate([*VECTORS[:100], *(1000 * VECTORS[100:150])]))
        with held_commit(monkeypatch, commit):
            commit.start(writer.commit)
            returns(writer.refit().result)
            refitted = writer._state.snapshot.trained
            commit.finish()
        assert writer._state.snapshot.trained is refitted
        holds(writer, expected)
        holds(pcpq.open(path), expected)
        writer.commit()
    holds(pcpq.open(path), expected)


def test_the_later_of_two_commits_is_never_the_older_one(tmp_path, monkeypatch):
    """The second begins while the first writes, and takes what is there when the first is done."""
    index, path = fitted(), tmp_path / "index"
    index.add(VECTORS[:100])
    index.save(path)
    first, second = Background(), Background()
    with pcpq.open(path, mode="a") as writer:
        writer.add(VECTORS[100:110])
        with held_commit(monkeypatch, first):
            first.start(writer.commit)
            second.waiting.set()
            second.start(writer.commit)
            writer.add(VECTORS[110:120])
            first.finish()
            second.finish()
        assert pcpq.open(path)._committed[0].generation == 3
        assert writer._committed[0].generation == 3
        holds(pcpq.open(path), dict(enumerate(VECTORS[:120])))
        writer.backup(tmp_path / "backup")
        holds(pcpq.open(tmp_path / "backup"), dict(enumerate(VECTORS[:120])))


def test_a_save_is_of_one_moment(tmp_path, monkeypatch):
    index, save = fitted(), Background()
    index.add(VECTORS[:100])
    with held_commit(monkeypatch, save):
        save.start(index.save, tmp_path / "index")
        returns(index.add, VECTORS[100:110])
        returns(index.remove, [5])
        save.finish()
    holds(pcpq.open(tmp_path / "index"), dict(enumerate(VECTORS[:100])))
    holds(index, {place: VECTORS[place] for place in range(110) if place != 5})


def test_recall_measured_while_a_commit_writes_is_kept(tmp_path, monkeypatch):
    index, path, commit = fitted(), tmp_path / "index", Background()
    index.add(MANY)
    index.save(path)
    with pcpq.open(path, mode="a") as writer:
        writer.remove([0])
        with held_commit(monkeypatch, commit):
            commit.start(writer.commit)
            returns(writer.search, QUERIES, target_recall=0.9)
            curve = writer._state.snapshot.recall
            assert curve is not None
            commit.finish()
        assert writer._state.snapshot.recall is curve
        assert pcpq.open(path)._state.snapshot.recall is None
        writer.commit()
    assert pcpq.open(path)._state.snapshot.recall is not None


def test_a_note_of_one_commit_is_not_put_on_the_failure_of_another(tmp_path, monkeypatch):
    """A commit fails before it begins, while one of another thread has taken place."""
    index, path, commit = fitted(), tmp_path / "index", Background()
    index.add(VECTORS[:100])
    index.save(path)
    with pcpq.open(path, mode="a") as writer:
        writer.remove([0])
        with held_commit(monkeypatch, commit):
            commit.start(writer.commit)
            failure = KeyboardInterrupt()
            with suppress(KeyboardInterrupt), writer._store.noting_commits():
                commit.finish()
                raise failure
        assert not getattr(failure, "__notes__", [])


# Signal handlers, which run in the thread that they interrupt


@contextmanager
def handler(call):
    """Call something at a signal; what it returned or raised."""
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
    """A function of a module that is interrupted by a signal the first so many times."""
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


# All at once


def test_many_threads_lose_nothing_and_make_nothing_twice(tmp_path):
    path, failures, stop = tmp_path / "index", [], threading.Event()
    index = fitted()
    index.add(VECTORS[:300])
    index.save(path)
    own = {thread: {} for thread in range(3)}  # the ids of every thread, and the rows of their vectors
    with pcpq.open(path, mode="a") as writer:

        def changes(thread):
            generator, ids = np.random.default_rng(thread), own[thread]
            for step in range(40):
                rows = generator.integers(0, 1200, size=generator.integers(1, 9))
                given = writer.add(VECTORS[rows])
                ids.update(zip(given.tolist(), rows.tolist(), strict=True))
                some = generator.choice(list(ids), min(len(ids), 3), replace=False).tolist()
                if step % 2:
                    assert writer.remove(some) == len(some)
                    for one in some:
                        del ids[one]
                else:
                    rows = generator.integers(0, 1200, size=len(some))
                    writer.upsert(VECTORS[rows], some)
                    ids.update(zip(some, rows.tolist(), strict=True))

        def until_stopped(*calls):
            while not stop.is_set():
                for call in calls:
                    call()

        def check_what_is_committed():
            with pcpq.open(path) as opened:
                opened.verify()
                ids = ids_of(opened)
                assert len(np.unique(ids)) == len(ids)

        def watched(call, *arguments):
            def work():
                try:
                    call(*arguments)
                except BaseException as error:
                    failures.append(error)

            return threading.Thread(target=work, daemon=True)

        changing = [watched(changes, thread) for thread in own]
        others = [
            watched(until_stopped, writer.commit, check_what_is_committed),
            watched(until_stopped, writer.compact, lambda: writer.refit().result(30)),
            watched(until_stopped, lambda: writer.search(QUERIES, k=5), writer.commit),
        ]
        for thread in changing + others:
            thread.start()
        for thread in changing:
            thread.join(60)
        stop.set()
        for thread in others:
            thread.join(60)
        assert not any(thread.is_alive() for thread in changing + others)
        assert not failures
        expected = dict(enumerate(VECTORS[:300]))
        for ids in own.values():
            assert not expected.keys() & ids.keys()
            expected.update({one: VECTORS[row] for one, row in ids.items()})
        holds_in_any_order(writer, expected)
        writer.commit()
    holds_in_any_order(pcpq.open(path), expected)


def ids_of(index):
    return np.concatenate([part.segment.ids[part.rows_left()] for part in index._state.snapshot.parts])


def holds_in_any_order(index, expected):
    """As `holds`, where vectors may be equal and a refit may have chosen other lists."""
    assert np.array_equal(np.sort(ids_of(index)), np.sort(list(expected)))
    assert np.array_equal(index.reconstruct(list(expected)), np.stack(list(expected.values())))
