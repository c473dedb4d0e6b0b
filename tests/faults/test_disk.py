"""Disks that are full, slow to confirm, or write by halves; descriptors that run out."""

import errno
import itertools
import os
import shutil
import subprocess
import sys

import pytest
from faulty_os import IDS, FaultyOs, change, failing, fails
from patched_os import patch_os
from small_indexes import TORTURE, answers, files

import pcpq
from pcpq.store import store as storage_store

pytestmark = pytest.mark.torture


def test_a_commit_that_the_disk_does_not_confirm_is_there_and_says_so(before, tmp_path, monkeypatch):
    path = tmp_path / "index"
    shutil.copytree(before, path)
    with pcpq.open(path, mode="a") as writer:
        change(writer)
        new = answers(writer, IDS)
        syncs = 0
        for at in itertools.count():
            faulty = FaultyOs("fsync", at, failing(errno.EIO))
            with monkeypatch.context() as patch:
                patch_os(patch, faulty)
                with pytest.raises(OSError, match=os.strerror(errno.EIO)) as raised:
                    writer.commit()
            if faulty.replaced_before:
                break
            syncs += 1
            assert not isinstance(raised.value, pcpq.NotDurableError)
        assert isinstance(raised.value, pcpq.NotDurableError)
        assert "generation 2 was committed" in str(raised.value)
        assert str(path) in str(raised.value)
        assert syncs >= 3
        assert answers(pcpq.open(path), IDS) == new
        writer.commit()
        assert answers(pcpq.open(path), IDS) == new


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits on descriptors to set")
@pytest.mark.parametrize("free", range(5))
def test_a_commit_that_runs_out_of_descriptors_says_truly_whether_it_is_there(free, before, tmp_path):
    path = tmp_path / "index"
    shutil.copytree(before, path)
    code = """
import os, resource, sys
import numpy as np, pcpq
path, free = sys.argv[1], int(sys.argv[2])
index = pcpq.open(path, mode="a")
index.add(np.ones((3, 8), np.float32), [900, 901, 902])
index.remove([0])
next_free = os.dup(0)
os.close(next_free)
resource.setrlimit(resource.RLIMIT_NOFILE, (next_free + free, next_free + free))
try:
    index.commit()
    print("committed")
except OSError as error:
    print("failed", type(error).__name__)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, path, str(free)], capture_output=True, text=True, check=True
    )
    assert (901 in pcpq.open(path)) == (ran.stdout == "committed\n"), ran.stdout
    if free == 0:
        assert ran.stdout.startswith("failed")
    if free == 4:
        assert ran.stdout == "committed\n"


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE], ids=["EIO", "EMFILE"])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_an_opening_that_fails_leaves_no_lock(mode, number, before, tmp_path, monkeypatch):
    path = tmp_path / "index"
    shutil.copytree(before, path)
    old, there, failures = answers(pcpq.open(path), IDS), files(path), 0
    for at in itertools.count():
        faulty = FaultyOs("open", at, failing(number))
        with monkeypatch.context() as patch:
            patch_os(patch, faulty)
            failed = fails(lambda: pcpq.open(path, mode=mode).close(), failing)
        if not faulty.struck:
            break
        failures += failed  # not if only files that are not needed could not be looked for
        with pcpq.open(path, mode="a") as writer:
            assert answers(writer, IDS) == old
        assert files(path) == there
    assert failures >= max(3, at - 1)


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
            patch_os(patch, ShortWrites())
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
                patch_os(patch, FullDisk(left))
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
            patch_os(patch, Recorder())
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


def test_a_save_that_fails_never_removes_what_another_process_saved_there_meanwhile(before, other, tmp_path):
    """The directory was not there when the first save began, and a second one was faster."""
    path = tmp_path / "index"
    expected = answers(pcpq.open(before), IDS)

    class Faster:
        def __getattr__(self, name):
            return getattr(os, name)

        def mkdir(self, directory):
            os.mkdir(directory)
            shutil.copytree(before, path, dirs_exist_ok=True)

    with pytest.MonkeyPatch.context() as patch:
        patch_os(patch, Faster())
        patch.setattr(storage_store.Store, "commit", failing(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            other.save(path)
    assert answers(pcpq.open(path), IDS) == expected
