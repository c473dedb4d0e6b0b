"""Every call that writes fails, or is interrupted: what was there stays, and nothing is in the way later."""

import copy
import errno
import itertools
import linecache
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from patched_os import patch_os
from test_storage import N_LISTS, QUERIES, TORTURE, VECTORS, answers, files, small_index, some_vectors

import pcpq
from pcpq.store import files as storage_files
from pcpq.store import store as storage_store
from pcpq.util.system import lock_alone

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


def commit_more(writer, path):
    """Add, commit; what is there then."""
    writer.add(VECTORS[312:315], [500, 501, 502])
    writer.commit()
    new = answers(writer, IDS)
    assert 501 in pcpq.open(path)
    return new


def another_writer_goes_on(path, old, new):
    """It makes what is old new, and commits."""
    with pcpq.open(path, mode="a") as writer:
        if answers(writer, IDS) == old:
            change(writer)
        writer.commit()
        assert answers(writer, IDS) == new
    assert answers(pcpq.open(path), IDS) == new


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_commit_that_fails_changes_nothing_and_may_be_tried_again(
    name, fault, before, tmp_path, monkeypatch, record_property
):
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
                patch_os(patch, faulty)
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
                new = commit_more(writer, path)
        another_writer_goes_on(path, old, new)
        reader.refresh()
        assert answers(reader, IDS) == new
        del reader
        shutil.rmtree(path)
    record_property("failing system calls", struck)
    assert struck >= {"replace": 1, "fsync": 4, "open": 5, "write": 4}[name]


@pytest.mark.parametrize("over", ["nothing", "an index"])
@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_save_that_fails_changes_nothing_and_may_be_tried_again(
    name, fault, over, before, other, tmp_path, monkeypatch, record_property
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
            patch_os(patch, faulty)
            failed = fails(lambda path=path: other.save(path), fault)
        if not faulty.struck:
            assert not failed
            break
        struck += 1
        if faulty.replaced:
            assert answers(pcpq.open(path), IDS) == new
        else:
            assert failed
            if over == "nothing":
                assert not path.exists()
            else:
                assert files(path) == there
                assert answers(pcpq.open(path), IDS) == old
                pcpq.open(path, mode="a").close()
        assert answers(other, IDS) == new
        if faulty.replaced:
            pcpq.open(path, mode="a").close()
        else:
            other.save(path)
        assert answers(pcpq.open(path), IDS) == new
        shutil.rmtree(path)
    record_property("failing system calls", struck)
    assert struck >= {"replace": 1, "fsync": 4, "open": 5, "write": 4}[name]


class InterruptingOs:
    """`os`, in which an exception comes after call `at`, which has succeeded."""

    calls = ("open", "close", "write", "read", "fsync", "replace", "unlink", "mkdir", "link", "lstat", "fstat")

    def __init__(self, at, error):
        self.at, self.error = at, error
        self.count, self.struck, self.replaced_before = 0, None, False

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in self.calls:
            return real

        def call(*arguments, **named):
            result = real(*arguments, **named)
            self.count += 1
            self.replaced_before |= name == "replace"
            if self.count - 1 == self.at:
                self.struck = name
                raise self.error
            return result

        return call

    def interrupts(self, act, monkeypatch):
        """Whether the exception came out of it; which one."""
        with monkeypatch.context() as patch:
            patch_os(patch, self)
            try:
                act()
            except (KeyboardInterrupt, SystemExit) as error:
                return error
        return None


def committed(error):
    """What the notes of an exception say of the commit that it interrupted."""
    return any("was committed before" in note for note in getattr(error, "__notes__", []))


# Only some calls, unless all were asked for; each kind of interruption begins elsewhere.
STRIDE = 1 if TORTURE else 4


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_commit_interrupted_after_any_call_is_the_old_or_the_new(
    error, before, tmp_path, monkeypatch, record_property
):
    old, seen = answers(pcpq.open(before), IDS), set()
    for at in itertools.count(0 if error is KeyboardInterrupt else 1, STRIDE):
        path = tmp_path / str(at)
        shutil.copytree(before, path)
        reader = pcpq.open(path)
        with pcpq.open(path, mode="a") as writer:
            there = files(path)
            change(writer)
            new = answers(writer, IDS)
            interrupting = InterruptingOs(at, error)
            raised = interrupting.interrupts(writer.commit, monkeypatch)
            if interrupting.struck is None:
                break
            seen.add((interrupting.struck, interrupting.replaced_before))
            assert answers(reader, IDS) == old
            assert answers(pcpq.open(path), IDS) == (new if interrupting.replaced_before else old)
            if raised is not None:
                assert committed(raised) == interrupting.replaced_before
            if not interrupting.replaced_before:
                assert raised is not None
                assert files(path) == there
            assert answers(writer, IDS) == new
            if at % 3:  # the same writer goes on, with more
                new = commit_more(writer, path)
        another_writer_goes_on(path, old, new)
        assert reader.refresh()
        assert answers(reader, IDS) == new
        del reader
        shutil.rmtree(path)
    record_property("interruptions after a system call", at // STRIDE)
    assert {replaced for _, replaced in seen} == {True, False}
    if TORTURE:
        assert {("replace", True), ("fsync", True), ("fsync", False), ("write", False)} <= seen


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("what", ["save", "save over an index", "backup", "backup by copies"])
def test_a_save_or_backup_interrupted_after_any_call_is_whole_or_not_there(
    what, error, before, other, tmp_path, monkeypatch, record_property
):
    source = pcpq.open(before) if "backup" in what else other
    old, new = answers(pcpq.open(before), IDS), answers(source, IDS)
    seen, stride = set(), 1 if "backup" in what else STRIDE  # a backup has few calls after its rename
    for at in itertools.count(0 if error is KeyboardInterrupt else 1, stride):
        path = tmp_path / str(at)
        if what == "save over an index":
            shutil.copytree(before, path)

        def act(path=path):
            if "backup" in what:
                source.backup(path, copy="copies" in what)
            else:
                source.save(path)

        interrupting = InterruptingOs(at, error)
        interrupting.interrupts(act, monkeypatch)
        if interrupting.struck is None:
            break
        seen.add(interrupting.replaced_before)
        if interrupting.replaced_before:
            assert answers(pcpq.open(path), IDS) == new
            pcpq.open(path, mode="a").close()
        else:
            if what == "save over an index":
                assert answers(pcpq.open(path), IDS) == old
            else:
                with pytest.raises(FileNotFoundError):
                    pcpq.open(path)
            act()
        assert answers(pcpq.open(path), IDS) == new
        pcpq.open(path).verify()
        shutil.rmtree(path)
    record_property("interruptions after a system call", at // stride)
    assert seen == {True, False}


EVERY_LINE = 1 if TORTURE else 41


class Interruption:
    """A trace function that raises KeyboardInterrupt before the `at`-th line of our own that is run."""

    modules = (
        "state.py",
        "store.py",
        "files.py",
        "index.py",
        "manifest.py",
        "tensors.py",
        "backup.py",
        "durable_files.py",
    )

    def __init__(self, at):
        self.left, self.struck, self.entered = at, None, set()

    def __call__(self, frame, event, argument):
        if Path(frame.f_code.co_filename).name not in self.modules:
            return None
        if event == "line" and not self._never_interrupted(frame):
            if self.left == 0:
                self.struck = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                self.left -= 1
                raise KeyboardInterrupt
            self.left -= 1
        return self

    def _never_interrupted(self, frame):
        """Whether Python does not look for signals here: at a `try`, and at a `with` that is left."""
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
        place = (id(frame), frame.f_lineno)
        left = line.startswith("with ") and place in self.entered
        self.entered.add(place)
        return left or line.startswith("try:")

    def strike(self, act):
        """Whether KeyboardInterrupt came out of it; which one."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            act()
        except KeyboardInterrupt as error:
            return error
        finally:
            sys.settrace(before)
        return None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # within __del__
def test_a_commit_interrupted_at_any_line_is_the_old_or_the_new(before, tmp_path, record_property):
    old, seen = answers(pcpq.open(before), IDS), set()
    for at in itertools.count(0, EVERY_LINE):
        path = tmp_path / str(at)
        shutil.copytree(before, path)
        with pcpq.open(path, mode="a") as writer:
            change(writer)
            new = answers(writer, IDS)
            interruption = Interruption(at)
            raised = interruption.strike(writer.commit)
            if interruption.struck is None:
                break
            found = answers(pcpq.open(path), IDS)
            assert found in (old, new), interruption.struck
            if raised is not None and committed(raised):
                assert found == new, interruption.struck
            seen.add(found == new)
            assert answers(writer, IDS) == new, interruption.struck
            writer.compact()
            writer.commit()
            new = answers(writer, IDS)
        with pcpq.open(path, mode="a") as writer:
            assert answers(writer, IDS) == new, interruption.struck
            writer.verify()
        shutil.rmtree(path)
    record_property("interruptions before a line of code", at // EVERY_LINE)
    assert seen == {True, False}
    assert at > 200


def test_changes_interrupted_at_any_line_leave_an_index_that_goes_on(fitted):
    """Nothing stays claimed or locked: another thread compacts, which waits for all that is under way."""
    for at in itertools.count(0, 1 if TORTURE else 23):
        index = copy.copy(fitted)
        for part in range(3):
            index.add(VECTORS[20 * part : 20 * part + 20])
        interruption = Interruption(at)

        def changes(index=index):
            index.add(VECTORS[60:80], np.arange(60, 80))
            index.remove(np.arange(0, 30))
            index.compact()

        interruption.strike(changes)
        if interruption.struck is None:
            break
        after = threading.Thread(target=lambda index=index: (index.remove([59]), index.compact()), daemon=True)
        after.start()
        after.join(30)
        assert not after.is_alive(), interruption.struck
        there = set(index.search(QUERIES[0], k=100).ids.tolist()) - {-1}
        everything, removed, added = set(range(59)), set(range(30)), set(range(60, 80))
        assert there in (everything, everything | added, (everything | added) - removed), interruption.struck
    assert at > 100


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interruption_after_the_lock_was_taken_leaves_no_lock(error, before, tmp_path, monkeypatch):
    path = tmp_path / "index"
    shutil.copytree(before, path)

    def lock_then_raise(descriptor):
        lock_alone(descriptor)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(storage_files, "lock_alone", lock_then_raise)
        with pytest.raises(error):
            pcpq.open(path, mode="a")
    pcpq.open(path, mode="a").close()


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
        assert "generation 2 is there" in str(raised.value)
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
