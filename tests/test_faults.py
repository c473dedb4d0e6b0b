"""Every call that writes fails once: what was there before stays, and nothing stands in the way afterwards."""

import copy
import errno
import itertools
import os
import shutil

import numpy as np
import pytest
from test_storage import N_LISTS, TORTURE, VECTORS, answers, files, small_index, some_vectors

import pcpq
from pcpq.storage import files as storage_files

IDS = range(0, 420, 9)


class FaultyOs:
    """`os`, in which call `at` of the function `name` does not do what it should."""

    def __init__(self, name, at, fault):
        self.name, self.at, self.fault = name, at, fault
        self.calls, self.struck, self.replaced, self.replaced_before = 0, False, False, False

    def __getattr__(self, attribute):
        real = getattr(os, attribute)
        if attribute == "replace":
            real = self.noting_replace
        if attribute != self.name:
            return real

        def call(*arguments, **named):
            self.calls += 1
            if self.calls - 1 != self.at:
                return real(*arguments, **named)
            self.struck, self.replaced_before = True, self.replaced
            return self.fault(real, *arguments, **named)

        return call

    def noting_replace(self, *arguments):
        os.replace(*arguments)
        self.replaced = True


def failing(number):
    def fault(real, *arguments, **named):
        raise OSError(number, os.strerror(number))

    return fault


def half_written_then_full(real, descriptor, content):
    real(descriptor, content[: len(content) // 2])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupted(real, *arguments, **named):
    raise KeyboardInterrupt


FAULTS = [
    pytest.param("write", failing(errno.ENOSPC), id="write-ENOSPC"),
    pytest.param("write", failing(errno.EIO), id="write-EIO"),
    pytest.param("write", half_written_then_full, id="write-half"),
    pytest.param("write", interrupted, id="write-interrupted"),
    pytest.param("fsync", failing(errno.EIO), id="fsync-EIO"),
    pytest.param("fsync", failing(errno.ENOSPC), id="fsync-ENOSPC"),
    pytest.param("fsync", interrupted, id="fsync-interrupted"),
    pytest.param("open", failing(errno.ENOSPC), id="open-ENOSPC"),
    pytest.param("open", failing(errno.EIO), id="open-EIO"),
    pytest.param("open", failing(errno.EMFILE), id="open-EMFILE"),
    pytest.param("replace", failing(errno.ENOSPC), id="replace-ENOSPC"),
    pytest.param("replace", failing(errno.EIO), id="replace-EIO"),
]


def places(name):
    """Which calls fail: all, of many only some unless all were asked for."""
    return itertools.count(0, 1 if TORTURE or name != "write" else 7)


@pytest.fixture(scope="module")
def fitted():
    return small_index()


@pytest.fixture(scope="module")
def before(fitted, tmp_path_factory):
    """A directory with an index, to be copied."""
    index = copy.copy(fitted)
    index.add(VECTORS[:300])
    index.remove([9, 10])
    path = tmp_path_factory.mktemp("before") / "index"
    index.save(path)
    return path


@pytest.fixture(scope="module")
def other():
    """What is saved over it."""
    index = pcpq.build(some_vectors(90, seed=5), metric="euclidean", n_lists=N_LISTS, keep="float32")
    index.add(some_vectors(9, seed=6))
    index.remove([4])
    return index


def change(index):
    """A loose segment, a live mask, and ids that are there already."""
    index.add(VECTORS[300:312], np.arange(400, 412))
    index.upsert(some_vectors(6, seed=8), np.arange(27, 33))
    index.remove(np.arange(90, 100))


def fails(call, fault):
    """Whether it did, as it should."""
    failure = None
    try:
        call()
    except (OSError, KeyboardInterrupt) as error:
        failure = error
    if isinstance(failure, OSError):
        assert failure.errno in (errno.ENOSPC, errno.EIO, errno.EMFILE), repr(failure)
        assert not isinstance(failure, pcpq.LockedError)
    elif failure is not None:
        assert fault is interrupted
    return failure is not None


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_commit_that_fails_changes_nothing_and_may_be_tried_again(name, fault, before, tmp_path, monkeypatch):
    old = answers(pcpq.open(before), IDS)
    struck = 0
    for at in places(name):
        path = tmp_path / str(at)
        shutil.copytree(before, path)
        reader = pcpq.open(path)
        with pcpq.open(path, mode="a") as writer:
            there = files(path)
            change(writer)
            new = answers(writer, IDS)
            assert new != old
            faulty = FaultyOs(name, at, fault)
            with monkeypatch.context() as patch:
                patch.setattr(storage_files, "os", faulty)
                failed = fails(writer.commit, fault)
            if not faulty.struck:
                assert not failed
                break
            struck += 1
            assert answers(reader, IDS) == old
            if faulty.replaced:  # all of it was written: a reader may see it, and only as a whole
                assert answers(pcpq.open(path), IDS) == new
            else:
                assert failed
                assert answers(pcpq.open(path), IDS) == old
                assert files(path) == there
            assert answers(writer, IDS) == new
            if at % 2:  # the same writer tries again, with more
                writer.add(VECTORS[312:315], [500, 501, 502])
                writer.commit()
                new = answers(writer, IDS)
                assert 501 in pcpq.open(path)
        with pcpq.open(path, mode="a") as writer:  # or another does
            if answers(writer, IDS) == old:
                change(writer)
            writer.commit()
            assert answers(writer, IDS) == new
        assert answers(pcpq.open(path), IDS) == new
        reader.refresh()
        assert answers(reader, IDS) == new
        del reader
        shutil.rmtree(path)
    assert struck >= {"replace": 1, "fsync": 4, "open": 5, "write": 4}[name]


@pytest.mark.parametrize("over", ["nothing", "an index"])
@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_save_that_fails_changes_nothing_and_may_be_tried_again(
    name, fault, over, before, other, tmp_path, monkeypatch
):
    old, new = answers(pcpq.open(before), IDS), answers(other, IDS)
    struck = 0
    for at in places(name):
        path = tmp_path / str(at)
        if over == "an index":
            shutil.copytree(before, path)
        there = files(path) if path.exists() else []
        faulty = FaultyOs(name, at, fault)
        with monkeypatch.context() as patch:
            patch.setattr(storage_files, "os", faulty)
            failed = fails(lambda path=path: other.save(path), fault)
        if not faulty.struck:
            assert not failed
            break
        struck += 1
        if faulty.replaced:
            assert answers(pcpq.open(path), IDS) == new
        else:
            assert failed
            assert set(files(path)) - {"lock"} == set(there) - {"lock"}
            if over == "nothing":
                with pytest.raises(FileNotFoundError, match="is not an index"):
                    pcpq.open(path)
            else:
                assert answers(pcpq.open(path), IDS) == old
                pcpq.open(path, mode="a").close()
        assert answers(other, IDS) == new
        if faulty.replaced:
            pcpq.open(path, mode="a").close()
        else:
            other.save(path)
        assert answers(pcpq.open(path), IDS) == new
        shutil.rmtree(path)
    assert struck >= {"replace": 1, "fsync": 4, "open": 5, "write": 4}[name]


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE], ids=["EIO", "EMFILE"])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_an_opening_that_fails_leaves_no_lock(mode, number, before, tmp_path, monkeypatch):
    path = tmp_path / "index"
    shutil.copytree(before, path)
    old, there = answers(pcpq.open(path), IDS), files(path)
    for at in itertools.count():
        faulty = FaultyOs("open", at, failing(number))
        with monkeypatch.context() as patch:
            patch.setattr(storage_files, "os", faulty)
            failed = fails(lambda: pcpq.open(path, mode=mode).close(), failing)
        if not faulty.struck:
            break
        assert failed
        with pcpq.open(path, mode="a") as writer:
            assert answers(writer, IDS) == old
        assert files(path) == there
    assert at >= 3


@pytest.mark.parametrize("most", [1, 7, 4096])
def test_writes_that_come_up_short_are_completed(most, before, tmp_path, monkeypatch):
    path = tmp_path / "index"
    shutil.copytree(before, path)
    short = 0

    class ShortWrites:
        def __getattr__(self, attribute):
            return getattr(os, attribute)

        def write(self, descriptor, content):
            nonlocal short
            short += memoryview(content).nbytes > most
            return os.write(descriptor, memoryview(content)[:most])

    with pcpq.open(path, mode="a") as writer:
        change(writer)
        with monkeypatch.context() as patch:
            patch.setattr(storage_files, "os", ShortWrites())
            writer.commit()
            writer.save(tmp_path / "copy")
        new = answers(writer, IDS)
    assert short > 0
    assert answers(pcpq.open(path), IDS) == new
    assert answers(pcpq.open(tmp_path / "copy"), IDS) == new


def test_a_full_disk_may_be_emptied_and_the_commit_tried_again(before, tmp_path, monkeypatch):
    path = tmp_path / "index"
    shutil.copytree(before, path)
    old = answers(pcpq.open(path), IDS)

    class FullDisk:
        """Writes what fits, says so, and then fails: as a file system does."""

        def __init__(self, left):
            self.left = left

        def __getattr__(self, attribute):
            return getattr(os, attribute)

        def write(self, descriptor, content):
            if self.left == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = os.write(descriptor, memoryview(content)[: self.left])
            self.left -= written
            return written

    failures = 0
    with pcpq.open(path, mode="a") as writer:
        change(writer)
        there, new = files(path), answers(writer, IDS)
        for left in itertools.count(0, 97 if TORTURE else 1500):
            with monkeypatch.context() as patch:
                patch.setattr(storage_files, "os", FullDisk(left))
                if not fails(writer.commit, FullDisk):
                    break
            failures += 1
            assert answers(pcpq.open(path), IDS) == old
            assert files(path) == there
    assert failures > 3
    assert answers(pcpq.open(path), IDS) == new


def test_everything_is_on_disk_before_the_manifest_names_it(before, tmp_path, monkeypatch):
    path = tmp_path / "index"
    shutil.copytree(before, path)
    calls, names = [], {}

    class Recorder:
        def __getattr__(self, attribute):
            return getattr(os, attribute)

        def open(self, name, flags, *mode, **named):
            descriptor = os.open(name, flags, *mode, **named)
            names[descriptor] = os.path.basename(name)
            if flags & os.O_WRONLY:
                calls.append(("create", names[descriptor]))
            return descriptor

        def fsync(self, descriptor):
            os.fsync(descriptor)
            calls.append(("fsync", names[descriptor]))

        def replace(self, new, old):
            os.replace(new, old)
            calls.append(("replace", os.path.basename(new)))

        def unlink(self, name):
            os.unlink(name)
            calls.append(("unlink", os.path.basename(name)))

    with pcpq.open(path, mode="a") as writer:
        change(writer)
        with monkeypatch.context() as patch:
            patch.setattr(storage_files, "os", Recorder())
            writer.commit()
            writer.compact()
            writer.commit()
    replaced = [place for place, (what, _) in enumerate(calls) if what == "replace"]
    assert len(replaced) == 2
    for start, stop in zip([0, replaced[0] + 1], replaced, strict=True):
        created = {name for what, name in calls[start:stop] if what == "create"}
        synced = {name for what, name in calls[start:stop] if what == "fsync"}
        assert calls[stop][1] in created
        assert len(created) >= 2
        assert created <= synced
        assert calls[stop - 1] == ("fsync", path.name)  # the names of new files
        assert calls[stop + 1] == ("fsync", path.name)  # the new name of the manifest
        unlinked = [place for place, (what, _) in enumerate(calls) if what == "unlink"]
    assert unlinked
    assert all(place > replaced[0] + 1 for place in unlinked)
