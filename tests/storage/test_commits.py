"""Reading, writing, committing, refreshing."""

import copy
import pickle

import numpy as np
import pytest
from reference import exact
from small_indexes import N_LISTS, QUERIES, VECTORS, answers, some_vectors, string_ids

import pcpq

pytestmark = [pytest.mark.torture, pytest.mark.quick]


def test_an_index_opened_for_reading_refuses_changes(saved):
    index = pcpq.open(saved)
    before = answers(index, range(310))
    for change in (
        lambda: index.add(VECTORS[:2]),
        lambda: index.upsert(VECTORS[:2], [1, 2]),
        lambda: index.remove([1]),
        index.compact,
        index.commit,
    ):
        with pytest.raises(ValueError, match="open for reading only"):
            change()
    assert answers(index, range(310)) == before


def test_an_index_in_memory_has_nothing_to_commit_or_refresh(fitted):
    with pytest.raises(ValueError, match="in memory only"):
        fitted.commit()
    with pytest.raises(ValueError, match="opened for reading"):
        fitted.refresh()


def test_a_reader_sees_a_commit_when_it_refreshes_and_not_before(saved):
    reader = pcpq.open(saved)
    before = answers(reader, range(400))
    assert not reader.refresh()
    with pcpq.open(saved, mode="a") as writer:
        for change in (
            lambda: writer.add(VECTORS[300:]),
            lambda: writer.remove(np.arange(40)),
            lambda: writer.upsert(some_vectors(30, seed=4), np.arange(30, 60)),
            lambda: writer.remove([200]),
            writer.compact,
        ):
            change()
            assert not reader.refresh()
            assert answers(reader, range(400)) == before
            writer.commit()
            assert answers(reader, range(400)) == before
            assert reader.refresh()
            assert not reader.refresh()
            before = answers(reader, range(400))
            assert before == answers(writer, range(400)) == answers(pcpq.open(saved), range(400))
    assert len(reader) == 400 - 40 + 10 - 1
    assert reader.stats()["segments"] == 1


def test_a_writer_has_nothing_to_refresh(saved):
    with pcpq.open(saved, mode="a") as writer, pytest.raises(ValueError, match="opened for reading"):
        writer.refresh()


def test_a_reader_of_a_replaced_index_becomes_the_new_one_as_a_whole(saved):
    reader = pcpq.open(saved)
    other = pcpq.build(some_vectors(80, seed=5), metric="euclidean", n_lists=2, keep="float32")
    other.save(saved)
    assert reader.refresh()
    assert (reader.metric, reader.keep) == ("euclidean", "float32")
    assert answers(reader, range(80)) == answers(other, range(80))
    found = reader.search_range(QUERIES, max_distance=2.0)
    assert all(
        np.array_equal(a, b) for a, b in zip(found, other.search_range(QUERIES, max_distance=2.0), strict=True)
    )


def test_what_was_not_committed_is_gone(saved):
    before = answers(pcpq.open(saved), range(400))
    with pcpq.open(saved, mode="a") as writer:
        writer.add(VECTORS[300:])
        writer.remove([5])
        writer.compact()
    assert answers(pcpq.open(saved), range(400)) == before
    with pcpq.open(saved, mode="a") as writer:
        assert answers(writer, range(400)) == before


def test_a_closed_index_holds_nothing(saved):
    for mode in ("r", "a"):
        index = pcpq.open(saved, mode=mode)
        index.close()
        index.close()
        assert len(index) == 0
        for ask in (
            lambda index=index: index.search(QUERIES),
            index.commit,
            lambda index=index: index.remove([1]),
        ):
            with pytest.raises(ValueError, match=r"closed|not fitted|in memory only"):
                ask()


def test_a_committed_index_goes_on(saved):
    with pcpq.open(saved, mode="a") as writer:
        for step in range(4):
            start = 300 + 25 * step
            assert writer.add(VECTORS[start : start + 25]).tolist() == list(range(start, start + 25))
            writer.commit()
        writer.commit()  # nothing new
        found = writer.search(QUERIES, k=10, probes=N_LISTS, rerank=400)
        assert np.array_equal(found.ids, exact(VECTORS, QUERIES, "dot", 10)[1])
    with pcpq.open(saved, mode="a") as writer:
        assert writer.add(VECTORS[:1]).tolist() == [400]
        writer.remove([400])
        writer.commit()
    with pcpq.open(saved, mode="a") as writer:  # the number of what was removed does not come again
        assert writer.add(VECTORS[:1]).tolist() == [401]


def test_ids_keep_their_kind_also_when_all_are_removed(tmp_path, fitted):
    index = copy.copy(fitted)
    index.add(VECTORS[:20], string_ids(range(20)))
    index.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        assert writer.remove(string_ids(range(20))) == 20
        writer.commit()
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        assert len(writer) == 0
        with pytest.raises(ValueError, match="those of the index are str"):
            writer.add(VECTORS[:2], [1, 2])
        writer.add(VECTORS[:2], string_ids([1, 2]))
        writer.commit()
    assert string_ids([1])[0] in pcpq.open(tmp_path / "index")


def test_a_commit_writes_only_what_is_new(saved):
    def inodes(start):
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in saved.glob(start + "*")}

    before = inodes("segment-") | inodes("trained-")
    with pcpq.open(saved, mode="a") as writer:
        writer.add(VECTORS[300:330])
        writer.commit()
        after = inodes("segment-") | inodes("trained-")
        assert len(after) == len(before) + 1
        assert before.items() <= after.items()
        writer.remove([1])
        writer.commit()
        assert inodes("segment-") | inodes("trained-") == after
        live = inodes("live-")
        assert len(live) == 1
        writer.add(VECTORS[330:332])
        writer.commit()
        assert inodes("live-") == live
        assert after.items() <= (inodes("segment-") | inodes("trained-")).items()
        writer.commit()
        assert inodes("live-") == live


def test_an_opened_index_pickles_and_goes_its_own_way(saved):
    reader = pcpq.open(saved)
    twin = pickle.loads(pickle.dumps(reader))
    assert answers(twin, range(310)) == answers(reader, range(310))
    twin.add(VECTORS[300:])
    assert (len(twin), len(reader), len(pcpq.open(saved))) == (400, 300, 300)
    with pytest.raises(ValueError, match="in memory only"):
        twin.commit()
    with pcpq.open(saved, mode="a") as writer:
        writer.remove([1])
        writer.commit()
        other = pickle.loads(pickle.dumps(writer))
        assert answers(other, range(310)) == answers(writer, range(310))
    assert 1 not in other
