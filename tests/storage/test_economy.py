"""What is not done twice: files that are written, opened and read again without need."""

import errno
import os
import shutil
from itertools import pairwise

import numpy as np
import pytest
from faulty_os import FaultyOs, failing
from patched_os import patch_os
from small_indexes import QUERIES, VECTORS, answers, files, some_vectors, string_ids
from watched_os import CountingOs, ReadOnlyOs

import pcpq
from pcpq.search.recall_curve import RecallCurve
from pcpq.store import manifest as storage_manifest
from pcpq.store import state as storage_state
from pcpq.store import tensors as storage_tensors

IDS = range(400)


def identities(directory):
    """Return what changes when a file is written, by name."""
    found = {path.name: path.stat() for path in directory.iterdir()}
    return {name: (one.st_ino, one.st_mtime_ns, one.st_ctime_ns, one.st_size) for name, one in found.items()}


def generation(path):
    return storage_manifest.read_manifest(path).generation


def counted(monkeypatch, owner, name):
    """Count the calls of a function; return the count in a list."""
    real, calls = getattr(owner, name), [0]

    def call(*arguments, **named):
        calls[0] += 1
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, call)
    return calls


# Commits


def nothing(writer):
    pass


def only_in_vain(writer):
    """Changes that change nothing."""
    assert writer.remove([5000, 6000]) == 0
    writer.search(QUERIES, k=3)
    writer.compact()


@pytest.mark.parametrize("after", ["opening", "a commit", "a commit with masks", "a merge"])
@pytest.mark.parametrize("change", [nothing, only_in_vain])
def test_a_commit_with_nothing_to_commit_writes_nothing(change, after, saved, monkeypatch):
    with pcpq.open(saved, mode="a") as writer:
        if after != "opening":
            writer.add(VECTORS[300:310], attributes={"n": np.arange(10)})
            if after == "a commit with masks":
                writer.remove([3, 4, 305])
            writer.commit()
        if after == "a merge":
            writer.compact()
            writer.commit()
        if after == "a commit with masks" and change is only_in_vain:
            return  # to compact would make something new
        if after == "a commit" and change is only_in_vain:
            writer.compact()
            writer.commit()
        before, last, said = identities(saved), generation(saved), answers(writer, IDS)
        change(writer)
        with monkeypatch.context() as patch:
            patch_os(patch, ReadOnlyOs())
            writer.commit()
            writer.commit()
        assert identities(saved) == before
        assert generation(saved) == last
        assert answers(writer, IDS) == said
        writer.add(VECTORS[310:311], attributes={"n": [1]})
        writer.commit()
        assert generation(saved) == last + 1


@pytest.mark.parametrize(
    "change",
    [
        lambda writer: writer.add(VECTORS[300:301]),
        lambda writer: writer.remove([len(writer) // 2]),
        lambda writer: writer.upsert(some_vectors(1, seed=4), [7]),
        lambda writer: writer.remove(writer.add(VECTORS[300:301])),  # the number does not come again
        lambda writer: writer.refit().result(30),
    ],
    ids=["add", "remove", "upsert", "a number", "refit"],
)
def test_a_commit_of_any_change_writes(change, saved):
    with pcpq.open(saved, mode="a") as writer:
        for step in range(2):
            if step == 1:
                writer.add(VECTORS[320:340])
                writer.commit()
            last = generation(saved)
            change(writer)
            writer.commit()
            assert generation(saved) == last + 1
            said, following = answers(writer, IDS), writer._state.next_id
            opened = pcpq.open(saved)
            assert answers(opened, IDS) == said
            assert opened._state.next_id == following


def test_a_recall_curve_is_committed_once(fitted, tmp_path):
    index = pcpq.Index(metric="dot", n_lists=3).fit(VECTORS)
    index.add(some_vectors(2500))
    index.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        writer.tune()
        writer.commit()
        assert generation(tmp_path / "index") == 2
        writer.commit()
        assert generation(tmp_path / "index") == 2
        writer.tune(QUERIES)
        writer.commit()
        assert generation(tmp_path / "index") == 3
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        writer.commit()
        assert generation(tmp_path / "index") == 3
        assert writer._state.snapshot.recall.kind == "given"


def test_string_ids_and_attributes_are_known_to_be_committed(fitted, tmp_path):
    index = pcpq.Index(metric="dot", n_lists=3).fit(VECTORS)
    index.add(VECTORS[:50], string_ids(range(50)), attributes={"n": np.arange(50)})
    index.remove(string_ids([3]))
    index.save(tmp_path / "index")
    before = identities(tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        writer.commit()
    assert identities(tmp_path / "index").items() >= {k: v for k, v in before.items() if k != "lock"}.items()


def test_a_commit_that_the_disk_did_not_confirm_is_written_again(saved, monkeypatch):
    with pcpq.open(saved, mode="a") as writer:
        writer.remove([1])
        with monkeypatch.context() as patch:
            calls = CountingOs()
            patch_os(patch, calls)
            shutil.copytree(saved, saved.parent / "other")
            with pcpq.open(saved.parent / "other", mode="a") as other:
                calls.calls.clear()
                other.remove([1])
                other.commit()
        last = calls.calls["fsync"] - 1  # of the directory, after the rename
        with monkeypatch.context() as patch:
            patch_os(patch, FaultyOs("fsync", last, failing(errno.EIO)))
            with pytest.raises(pcpq.NotDurableError):
                writer.commit()
        assert generation(saved) == 2
        writer.commit()
        assert generation(saved) == 3
        writer.commit()
        assert generation(saved) == 3


def test_what_another_process_may_not_have_synced_is_synced_when_the_next_opens(saved, monkeypatch):
    """It may have been killed between the rename and the sync, and a commit of nothing would not sync."""
    calls = CountingOs()
    patch_os(monkeypatch, calls)
    with pcpq.open(saved, mode="a") as writer:
        assert calls.calls["fsync"] == 1
        writer.commit()
    assert calls.calls["fsync"] == 1
    pcpq.open(saved)
    assert calls.calls["fsync"] == 1


def test_a_commit_of_nothing_after_an_interrupted_one_makes_up_for_it(saved, tmp_path, monkeypatch):
    """The commit took place, but the index was not told: it must back up and use the new files all the same."""
    with pcpq.open(saved, mode="a") as writer:
        writer.add(VECTORS[300:310])

        def interrupted(*arguments):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(storage_state.State, "_use_files", interrupted)
            with pytest.raises(KeyboardInterrupt) as raised:
                writer.commit()
        assert "generation 2" in raised.value.__notes__[0]
        assert writer._state.snapshot.parts[-1].segment.guard is None
        writer.commit()
        assert generation(saved) == 2
        assert all(part.segment.guard is not None for part in writer._state.snapshot.parts)
        writer.backup(tmp_path / "backup")
        assert len(pcpq.open(tmp_path / "backup")) == 310


def test_files_of_the_last_commit_stay_as_long_as_it_may_be_backed_up(saved):
    """What was trained is used from memory after a commit, and its file is needed for a backup all the same."""
    with pcpq.open(saved, mode="a") as writer:
        for _ in range(2):
            writer.refit().result(30)
            writer.commit()
            held = writer._committed
        writer.refit().result(30)
        writer.commit()
        assert held[0].files <= set(files(saved))
        del held
        writer.remove([0])
        writer.commit()
        assert set(files(saved)) == writer._committed[0].files | {"lock", "manifest.json"}


def test_a_manifest_that_was_removed_is_written_again(saved):
    with pcpq.open(saved, mode="a") as writer:
        (saved / "manifest.json").unlink()
        writer.commit()
        assert answers(pcpq.open(saved), IDS) == answers(writer, IDS)


# Files that are opened


def test_a_commit_opens_only_files_that_it_wrote(saved, monkeypatch):
    opened = []
    real = storage_tensors.map_file

    def map_file(path, size):
        opened.append(path.name)
        return real(path, size)

    with pcpq.open(saved, mode="a") as writer:
        writer.remove([1, 2])
        writer.commit()
        there = set(files(saved))
        monkeypatch.setattr(storage_tensors, "map_file", map_file)
        writer.add(VECTORS[300:310])
        writer.commit()
        assert sorted(opened) == sorted(set(files(saved, "segment-")) - there)
        del opened[:]
        writer.remove([303])
        writer.commit()
        assert sorted(opened) == sorted(set(files(saved, "live-")) - there)
        del opened[:]
        writer.commit()
        writer.save(saved.parent / "elsewhere")
        assert not opened


@pytest.mark.parametrize("mode", ["r", "a"])
def test_opening_reads_the_manifest_and_its_recall_curve_once(mode, tmp_path, monkeypatch):
    index = pcpq.build(some_vectors(2500), metric="dot", n_lists=3)
    assert index._state.snapshot.recall is not None
    index.save(tmp_path / "index")
    curves = counted(monkeypatch, RecallCurve, "from_json")
    manifests = counted(monkeypatch, storage_manifest, "parse_manifest")
    opened = pcpq.open(tmp_path / "index", mode=mode)
    assert opened._state.snapshot.recall is not None
    assert (curves, manifests) == ([1], [1])
    opened.close()


# Refreshes


def test_a_refresh_with_nothing_new_reads_nothing(saved, monkeypatch):
    reader = pcpq.open(saved)
    reader.refresh()
    manifests = counted(monkeypatch, storage_manifest, "parse_manifest")
    reads = counted(monkeypatch, storage_manifest.OpenFile, "read_text")
    calls = CountingOs()
    patch_os(monkeypatch, calls)
    monkeypatch.setattr(storage_manifest.OpenFile, "_close", staticmethod(os.close))
    reader._maps._checked_at = np.inf  # sizes of files are checked now and then in any case
    for _ in range(5):
        assert not reader.refresh()
    assert (manifests, reads) == ([0], [0])
    assert set(calls.calls) == {"open", "fstat"}
    assert calls.calls["open"] == 5
    with pcpq.open(saved, mode="a") as writer:
        writer.remove([0])
        writer.commit()
    assert reader.refresh()
    assert not reader.refresh()
    assert 0 not in reader


def test_a_refresh_sees_a_manifest_of_the_same_time_and_size(saved):
    """Inodes are given again as soon as they are free, and the clock of files stands for milliseconds."""
    reader = pcpq.open(saved)
    manifest = saved / "manifest.json"
    time, sizes, inodes = manifest.stat().st_mtime_ns, set(), []
    with pcpq.open(saved, mode="a") as writer:
        for step in range(40):
            writer.upsert(some_vectors(1, seed=step), [7])
            writer.compact()
            writer.commit()
            if step % 2:
                os.utime(manifest, ns=(time, time))
                sizes.add(manifest.stat().st_size)
                inodes.append(manifest.stat().st_ino)
                assert reader.refresh()
                assert not reader.refresh()
                assert np.array_equal(reader.reconstruct([7]), writer.reconstruct([7]))
    assert len(sizes) < 20
    assert all(one != other for one, other in pairwise(inodes))


def test_a_refresh_after_the_same_manifest_was_copied_there_changes_nothing(saved):
    reader = pcpq.open(saved)
    snapshot = reader._state.snapshot
    copied = (saved / "manifest.json").read_bytes()
    (saved / "manifest-new").write_bytes(copied)
    os.replace(saved / "manifest-new", saved / "manifest.json")
    assert not reader.refresh()
    assert reader._state.snapshot is snapshot


def test_threads_and_handlers_that_refresh_never_go_back(saved, monkeypatch):
    """A refresh is interrupted after it has read one generation, and the next one comes within it."""
    reader, writer = pcpq.open(saved), pcpq.open(saved, mode="a")
    real, inner = pcpq.Index._replace, []

    def show(index, *arguments):
        if not inner:
            inner.append(None)
            writer.remove([1])
            writer.commit()
            inner[0] = reader.refresh()  # as a signal handler would
        real(index, *arguments)

    writer.remove([0])
    writer.commit()
    monkeypatch.setattr(pcpq.Index, "_replace", show)
    assert reader.refresh()
    assert inner == [True]
    assert len(reader) == 298
    assert not reader.refresh()
    writer.close()
