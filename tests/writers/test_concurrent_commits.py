"""Commits: changes do not wait while one writes its files, and are in the next commit."""

from contextlib import suppress

import numpy as np
import pytest
from background import Background, held_commit, returns
from fitted_index import MANY, QUERIES, VECTORS, fitted, holds, number, word

import pcpq
import pcpq.store.state


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
