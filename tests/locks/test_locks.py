"""Locks between processes: forks, hostile locks, odd file systems."""

import errno
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from small_indexes import TORTURE, VECTORS, another_process, answers, files, say

import pcpq
from pcpq.store import files as storage_files
from pcpq.store import store as storage_store
from pcpq.util import system

pytestmark = pytest.mark.torture

fcntl = pytest.importorskip("fcntl")
IDS = range(0, 320, 7)


# Forks


FORKING = """
import os, sys, time, pcpq
index = pcpq.open(sys.argv[1], mode="a")
child = os.fork()
if child == 0:
    try:
        index.commit()
    except ValueError as error:
        os.write(1, b"refused\\n")
    index.search([1.0] * 8, k=3)
    os.write(1, b"child %d\\n" % os.getpid())
    time.sleep(60)
    os._exit(0)
os.write(1, b"parent\\n")
sys.stdin.readline()
os._exit(0)
"""


def test_a_forked_process_does_not_keep_the_lock_of_a_writer_that_died(saved):
    with another_process(FORKING, saved) as parent:
        lines = sorted(parent.stdout.readline().split() for _ in range(3))
        assert [line[0] for line in lines] == ["child", "parent", "refused"]
        child = int(lines[0][1])
        try:
            with pytest.raises(pcpq.LockedError, match=f"process {parent.pid} on "):
                pcpq.open(saved, mode="a")
            parent.kill()
            parent.wait()
            os.kill(child, 0)  # it lives
            with pcpq.open(saved, mode="a") as writer:
                writer.remove([0])
                writer.commit()
        finally:
            os.kill(child, signal.SIGKILL)
    assert len(pcpq.open(saved)) == 299


def test_the_writer_goes_on_when_a_forked_process_has_ended(saved):
    with pcpq.open(saved, mode="a") as writer:
        child = os.fork()
        if child == 0:
            writer.close()  # which must not take the lock from its parent
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(pcpq.LockedError):
            pcpq.open(saved, mode="a")
        writer.remove([0])
        writer.commit()
    assert len(pcpq.open(saved)) == 299


def test_a_lock_that_outlives_its_process_is_told_as_such(saved):
    """A fork that Python does not see, as of a C library, keeps the lock: the error must not blame the dead."""
    code = """
import os, sys, pcpq
index = pcpq.open(sys.argv[1], mode="a")
descriptor = os.dup(index._store.lock._descriptor)
os.set_inheritable(descriptor, True)
print(os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ), flush=True)
sys.stdin.readline()
"""
    with another_process(code, saved) as parent:
        spawned = parent.stdout.readline()
        parent.kill()
        parent.wait()
        with pytest.raises(
            pcpq.LockedError, match=f"inherited the lock of process {parent.pid} .*, which has ended"
        ):
            pcpq.open(saved, mode="a")
        os.kill(int(spawned), signal.SIGKILL)


def test_a_process_that_is_started_does_not_inherit_the_lock(saved):
    with pcpq.open(saved, mode="a"):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        pcpq.open(saved, mode="a").close()
    finally:
        child.kill()
        child.wait()


def test_a_writer_whose_lock_file_was_removed_does_not_commit(saved):
    with pcpq.open(saved, mode="a") as first:
        first.remove([0])
        (saved / "lock").unlink()
        with pcpq.open(saved, mode="a") as second:
            with pytest.raises(pcpq.LockedError, match="lock was removed or replaced"):
                first.commit()
            second.remove([1])
            second.commit()
    assert 0 in pcpq.open(saved)
    assert 1 not in pcpq.open(saved)


FORKING_HANDLER = """
import os, signal, sys
import numpy as np, pcpq
from pcpq.store import files
from pcpq.util import durable_files
path, at, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
index = pcpq.open(path, mode="a")
index.add(np.ones((20, 8), np.float32), np.arange(500, 520))
index.remove([0])
children = []

def handler(number, frame):
    child = os.fork()
    if child:
        children.append(child)
    elif how == "exit":
        sys.exit(0)

class SignallingOs:
    calls = 0

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in ("open", "write", "fsync", "close", "replace", "unlink"):
            return real

        def call(*arguments, **named):
            result = real(*arguments, **named)
            SignallingOs.calls += 1
            if SignallingOs.calls == at:
                signal.raise_signal(signal.SIGUSR1)
            return result

        return call

signal.signal(signal.SIGUSR1, handler)
files.os = durable_files.os = SignallingOs()
mine = os.getpid()
try:
    index.commit()
    said = "committed"
except BaseException as error:
    said = "failed " + repr(error)
if os.getpid() != mine:
    os._exit(0)
for child in children:
    os.waitpid(child, 0)
print(said if children else "no more calls", flush=True)
"""


@pytest.mark.parametrize("how", ["exit", "return"])
def test_a_signal_handler_that_forks_within_a_commit_breaks_nothing(how, saved, tmp_path):
    """The child unwinds or goes on in the middle of the commit of its parent."""
    for at in range(1, 200, 1 if TORTURE else 5):
        path = tmp_path / str(at)
        shutil.copytree(saved, path)
        command = [sys.executable, "-c", FORKING_HANDLER, path, str(at), how]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        index = pcpq.open(path)
        index.verify()
        if ran.stdout == "no more calls\n":
            break
        there = 505 in index
        assert len(index) == (319 if there else 300)
        if ran.stdout == "committed\n":
            assert there, at
        pcpq.open(path, mode="a").close()
    else:
        pytest.fail("the commit has too many calls")
    assert at > 10


def test_a_lock_file_removed_during_a_commit_stops_it(saved, monkeypatch):
    writer = pcpq.open(saved, mode="a")
    writer.add(VECTORS[300:310], np.arange(500, 510))
    write_new = storage_store.write_new

    def remove_lock_and_let_another_in(path, chunks):
        (saved / "lock").unlink()
        with another_process("import sys, pcpq\npcpq.open(sys.argv[1], mode='a').close()", saved) as other:
            assert other.wait() == 0
        write_new(path, chunks)

    monkeypatch.setattr(storage_store, "write_new", remove_lock_and_let_another_in)
    with pytest.raises(pcpq.LockedError, match="was removed or replaced"):
        writer.commit()
    assert len(pcpq.open(saved)) == 300


def test_a_fork_waits_until_a_lock_is_known(saved, monkeypatch):
    """Between the opening of the lock file and its entry among those that a forked process closes."""
    opened, go_on = threading.Event(), threading.Event()
    keeper = storage_files.os

    class SlowOpen:
        def __getattr__(self, name):
            return getattr(os, name)

        def open(self, path, *arguments, **named):
            descriptor = os.open(path, *arguments, **named)
            if str(path).endswith("lock"):
                opened.set()
                go_on.wait(0.5)
            return descriptor

    monkeypatch.setattr(storage_files, "os", SlowOpen())
    locks = []
    thread = threading.Thread(target=lambda: locks.append(storage_files.WriterLock(saved)))
    thread.start()
    assert opened.wait(10)
    child = os.fork()
    if child == 0:
        there = {os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")}
        os._exit(int(str(saved / "lock") in there))
    go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert locks[0].held
    monkeypatch.setattr(storage_files, "os", keeper)


# Locks that others hold or file systems lack


LOCKING = """
import fcntl, os, sys
held = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]
for descriptor in held:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.readline()
"""


def test_a_file_that_another_user_has_locked_is_opened_all_the_same(saved, caplog, monkeypatch):
    monkeypatch.setattr(system, "MOST_WAIT", 0.05)
    expected = answers(pcpq.open(saved), IDS)
    segments = [saved / name for name in files(saved, "segment-")]
    with another_process(LOCKING, *segments, saved / "manifest.json") as locker:
        assert locker.stdout.readline() == "locked\n"
        started = time.monotonic()
        assert answers(pcpq.open(saved), IDS) == expected
        assert time.monotonic() - started < 30  # not for ever
        assert str(segments[0]) in caplog.text
        assert "another process has locked it" in caplog.text
        with pcpq.open(saved, mode="a") as writer:  # nor does it stop a writer
            writer.remove([0])
            writer.compact()
            writer.commit()
        assert segments[0].exists()  # whose lock the file has is not known
    pcpq.open(saved, mode="a").close()
    assert len(pcpq.open(saved)) == 299


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_without_file_locks_an_index_is_read_and_writing_names_file_and_reason(
    number, saved, monkeypatch, caplog
):
    expected = answers(pcpq.open(saved), IDS)

    def refused(descriptor, how):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(system.fcntl, "flock", refused)
        assert answers(pcpq.open(saved), IDS) == expected
        assert "the file system has no file locks" in caplog.text
        with pytest.raises(OSError, match="needs a file system with file locks") as raised:
            pcpq.open(saved, mode="a")
        assert raised.value.errno == number
        assert raised.value.filename == str(saved / "lock")
    pcpq.open(saved, mode="a").close()


# NFS turns flock into locks of a process over the whole file, as `lockf` takes them: to lock a file alone it
# must be open for writing, and all locks of a process on a file go when it closes any descriptor of it.
NFS = """
import fcntl
from pcpq.util import system
system.fcntl.flock = fcntl.lockf
"""


def test_with_the_locks_of_nfs_files_that_are_read_stay_and_others_go(saved, monkeypatch):
    reader = (
        NFS
        + """
import sys, pcpq
index, again = pcpq.open(sys.argv[1]), pcpq.open(sys.argv[1])
again.verify()
del again
print(len(index), flush=True)
for line in sys.stdin:
    if line == "refresh\\n":
        index.refresh()
    print(len(index), len(index.search([1.0] * 8, k=300).ids), flush=True)
"""
    )
    monkeypatch.setattr(system.fcntl, "flock", fcntl.lockf)
    old = files(saved, "segment-")
    with another_process(reader, saved) as process, pcpq.open(saved, mode="a") as writer:
        assert process.stdout.readline() == "300\n"
        writer.remove([0])
        writer.compact()
        writer.commit()
        assert set(old) < set(files(saved, "segment-"))
        assert say(process, "nothing") == "300 300"
        assert say(process, "refresh") == "299 300"
        writer.remove([1])
        writer.commit()
        assert not set(old) & set(files(saved, "segment-"))
    with another_process(NFS + "import sys, pcpq\npcpq.open(sys.argv[1], mode='a')", saved) as process:
        assert process.wait() == 0


def test_many_processes_open_beside_a_writer_without_a_lock_of_their_own(saved):
    context = multiprocessing.get_context("spawn")
    with pcpq.open(saved, mode="a") as writer, context.Pool(2) as pool:
        writer.remove([0])
        writer.commit()
        assert pool.map(length_of, [str(saved)] * 6) == [299] * 6


def length_of(path):
    return len(pcpq.open(path))
