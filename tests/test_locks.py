"""Locks and maps between processes: forks, hostile locks, odd file systems, files that are cut."""

import copy
import errno
import fcntl
import json
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
from test_storage import QUERIES, TORTURE, VECTORS, another_process, answers, files, say, small_index

import pcpq
from pcpq.store import files as storage_files
from pcpq.store import store as storage_store
from pcpq.util import durable_files, system

IDS = range(0, 320, 7)


@pytest.fixture
def saved(tmp_path):
    index = small_index()
    index.add(VECTORS[:300])
    index.save(tmp_path / "index")
    return tmp_path / "index"


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
            pcpq.LockedError, match=f"has the lock from process {parent.pid} .*, which has ended"
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
        with pytest.raises(OSError, match="must have file locks") as raised:
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


# Closing while a commit is under way


def test_close_waits_for_the_commit_of_another_thread(saved, monkeypatch):
    """Between the new files and the rename: there a close once let the next writer remove the new files."""
    reached, go_on = threading.Event(), threading.Event()

    def slow_replace(path, new):
        reached.set()
        assert go_on.wait(30)
        durable_files.replace_file(path, new)

    writer = pcpq.open(saved, mode="a")
    writer.add(VECTORS[300:310], np.arange(500, 510))
    monkeypatch.setattr(storage_store, "replace_file", slow_replace)
    failures = []

    def commit():
        try:
            writer.commit()
        except BaseException as error:
            failures.append(error)

    committing, closing = threading.Thread(target=commit), threading.Thread(target=writer.close)
    committing.start()
    assert reached.wait(30)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive()
    with pytest.raises(pcpq.LockedError):
        pcpq.open(saved, mode="a")
    go_on.set()
    committing.join(30)
    closing.join(30)
    assert not failures
    monkeypatch.undo()
    pcpq.open(saved, mode="a").close()
    assert 505 in pcpq.open(saved)
    with pytest.raises(ValueError, match="closed"):
        writer.commit()


@pytest.mark.parametrize("what", ["close", "commit"])
def test_a_signal_handler_within_a_close_does_not_wait_for_ever(what, saved, monkeypatch):
    writer = pcpq.open(saved, mode="a")
    handled = []

    def unlock_and_signal(descriptor):
        try:
            getattr(writer, what)()
            handled.append("went on")
        except ValueError as error:
            handled.append(str(error))
        system.unlock(descriptor)

    monkeypatch.setattr(storage_files, "unlock", unlock_and_signal)
    writer.close()
    assert len(handled) == 1
    monkeypatch.undo()
    pcpq.open(saved, mode="a").close()


@pytest.mark.parametrize("what", ["close", "commit"])
def test_a_signal_handler_may_not_close_or_commit_in_the_middle_of_a_commit(what, saved, monkeypatch):
    """A handler runs in the thread of the commit, which any lock of threads lets in."""
    writer = pcpq.open(saved, mode="a")
    writer.remove([0])
    handled = []

    def handler(number, frame):
        with pytest.raises(ValueError, match="is being committed by this thread") as raised:
            getattr(writer, what)()
        handled.append(raised.value)

    def replace_and_signal(path, new):
        os.kill(os.getpid(), signal.SIGUSR1)
        durable_files.replace_file(path, new)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        monkeypatch.setattr(storage_store, "replace_file", replace_and_signal)
        writer.commit()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert handled
    writer.close()
    assert len(pcpq.open(saved)) == 299


def test_closes_and_commits_of_many_threads_lose_nothing(saved):
    for step in range(25):
        writer = pcpq.open(saved, mode="a")
        writer.add(VECTORS[step : step + 1], [1000 + step])
        outcome = []

        def commit(writer=writer, outcome=outcome):
            try:
                writer.commit()
                outcome.append(True)
            except ValueError:
                outcome.append(False)

        threads = [threading.Thread(target=commit), threading.Thread(target=writer.close)]
        for thread in threads if step % 2 else threads[::-1]:
            thread.start()
        for thread in threads:
            thread.join()
        with pcpq.open(saved, mode="a") as next_writer:
            assert (1000 + step in next_writer) == outcome[0]


# Files that change under a map


def test_a_file_that_was_cut_under_a_map_is_an_error_not_the_end_of_the_process(saved):
    code = """
import sys, pcpq
from pathlib import Path
index = pcpq.open(sys.argv[1])
index.search([1.0] * 8, k=3)
print("ready", flush=True)
for line in sys.stdin:
    try:
        index.search([1.0] * 8, k=3)
        print("found", flush=True)
    except pcpq.FormatError as error:
        print(error, flush=True)
"""
    segment = saved / files(saved, "segment-")[0]
    content = segment.read_bytes()
    with another_process(code, saved) as reader:
        assert reader.stdout.readline() == "ready\n"
        assert say(reader, "search") == "found"
        os.truncate(segment, 100)
        time.sleep(2 * storage_files.SIZES_EVERY)
        said = say(reader, "search")
        assert said.startswith(str(segment))
        assert f"has 100 bytes, it had {len(content)} when it was opened" in said
        segment.write_bytes(content)
        time.sleep(2 * storage_files.SIZES_EVERY)
        assert say(reader, "search") == "found"


def damaged(content):
    """One bit of the last byte that counts: files end with an array."""
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("kind", ["segment", "trained", "live", "attributes", "manifest"])
def test_verify_reads_again_what_was_looked_at_before(kind, tmp_path):
    path = tmp_path / "index"
    index = pcpq.build(VECTORS[:300], metric="dot", n_lists=3, attributes={"place": np.arange(300)})
    index.remove([4, 5])
    index.save(path)
    opened = pcpq.open(path)
    opened.search(QUERIES, k=5, where="place > 10")
    opened.verify()
    file = path / files(path, kind)[0]
    content = file.read_bytes()
    with file.open("r+b") as damaging:  # in place: a map sees it
        damaging.write(damaged(content) if kind != "manifest" else content.replace(b"dot", b"tod"))
    with pytest.raises(pcpq.FormatError, match=file.name):
        opened.verify()
    with file.open("r+b") as mending:
        mending.write(content)
    opened.verify()


def test_verify_names_a_file_that_was_replaced_or_removed(saved):
    opened = pcpq.open(saved)
    segment = saved / files(saved, "segment-")[0]
    content = segment.read_bytes()
    segment.unlink()
    with pytest.raises(pcpq.FormatError, match=f"{segment.name}: is missing"):
        opened.verify()
    segment.write_bytes(content)
    with pytest.raises(pcpq.FormatError, match=f"{segment.name}: was replaced after it was opened"):
        opened.verify()
    pcpq.open(saved).verify()


def test_a_copy_notices_a_file_that_was_cut_as_well(saved):
    reader = pcpq.open(saved)
    duplicate = copy.copy(reader)
    del reader
    expected = answers(duplicate, IDS)
    segment = saved / files(saved, "segment-")[0]
    content = segment.read_bytes()
    os.truncate(segment, 100)
    time.sleep(2 * storage_files.SIZES_EVERY)
    with pytest.raises(pcpq.FormatError, match="has 100 bytes"):
        duplicate.search(QUERIES)
    segment.write_bytes(content)
    time.sleep(2 * storage_files.SIZES_EVERY)
    assert answers(duplicate, IDS) == expected


def test_verify_looks_at_the_files_of_its_own_directory_not_at_links_to_them(saved, tmp_path):
    reader = pcpq.open(saved)
    reader.backup(tmp_path / "backup")
    backup = pcpq.open(tmp_path / "backup")
    name = files(saved, "segment-")[0]
    for directory, broken, sound in ((tmp_path / "backup", backup, reader), (saved, reader, None)):
        shutil.copy(directory / name, directory / "new")
        os.replace(directory / "new", directory / name)
        with pytest.raises(pcpq.FormatError, match=f"{directory / name}: was replaced"):
            broken.verify()
        if sound is not None:
            sound.verify()


def test_bytes_between_arrays_are_zeros(saved):
    for name in [*files(saved, "segment-"), *files(saved, "trained-")]:
        content = (saved / name).read_bytes()
        length = int.from_bytes(content[:8], "little")
        entries = json.loads(content[8 : 8 + length])
        padding = [entry["data_offsets"] for array, entry in entries.items() if array.startswith("padding.")]
        assert padding
        for start, stop in padding:
            for place in (start, stop - 1):
                at = 8 + length + place
                (saved / name).write_bytes(content[:at] + b"\1" + content[at + 1 :])
                with pytest.raises(pcpq.FormatError, match=r"padding\.\d+ is not all zeros"):
                    pcpq.open(saved)
        (saved / name).write_bytes(content)


def test_verify_and_backup_of_an_index_that_commits_meanwhile_are_of_one_generation(saved, tmp_path):
    writer, stop, failures = pcpq.open(saved, mode="a"), threading.Event(), []

    def commits():
        try:
            for step in range(10_000):
                writer.upsert(VECTORS[step % 300 : step % 300 + 1], [step % 10])
                writer.compact()
                writer.commit()
                if stop.is_set():
                    return
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=commits)
    thread.start()
    try:
        for step in range(30):
            writer.verify()
            writer.backup(tmp_path / f"backup{step}")
    finally:
        stop.set()
        thread.join()
    assert not failures


def test_refresh_sees_another_index_of_the_same_generation(saved, tmp_path):
    reader = pcpq.open(saved)
    other = small_index()
    other.add(VECTORS[:50])
    other.save(tmp_path / "other")
    saved.rename(tmp_path / "old")
    (tmp_path / "other").rename(saved)
    assert reader.refresh()
    assert len(reader) == 50
    assert not reader.refresh()


def test_an_interrupted_refresh_may_be_tried_again(saved, monkeypatch):
    reader = pcpq.open(saved)
    with pcpq.open(saved, mode="a") as writer:
        writer.remove([0])
        writer.commit()

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pcpq.Index, "_show", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.refresh()
    assert reader.refresh()
    assert len(reader) == 299


def test_a_closed_reader_does_not_refresh(saved):
    reader = pcpq.open(saved)
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.refresh()


def test_searches_beside_a_refresh_to_ids_of_another_kind_are_of_one_kind(saved, tmp_path):
    texts = small_index()
    texts.add(VECTORS[:300], [f"w{number}" for number in range(300)])
    numbers, reader, failures, stop = pcpq.open(saved), pcpq.open(saved), [], threading.Event()
    copy.copy(numbers)

    def search():
        while not stop.is_set():
            try:
                kinds = {type(one) for one in reader.search(QUERIES, k=5).ids.ravel().tolist()}
                kinds |= {type(one) for one in reader.search(QUERIES[0], k=5).ids.tolist()}
                if not kinds <= {int, str}:
                    failures.append(kinds)
            except BaseException as error:
                failures.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    try:
        for step in range(30):
            (texts if step % 2 == 0 else numbers).save(saved)
            assert reader.refresh()
    finally:
        stop.set()
        thread.join()
    assert not failures


def test_two_indexes_of_a_process_share_their_maps(saved):
    first, second = pcpq.open(saved), pcpq.open(saved)
    paths = [saved / name for name in files(saved) if name.startswith(("segment-", "trained-"))]
    assert all(storage_files.already_mapped(path) is not None for path in paths)
    assert set(first._maps._paths) == set(second._maps._paths)
    expected = answers(first, IDS)
    first.close()
    assert answers(second, IDS) == expected


def test_many_processes_open_beside_a_writer_without_a_lock_of_their_own(saved):
    context = multiprocessing.get_context("spawn")
    with pcpq.open(saved, mode="a") as writer, context.Pool(2) as pool:
        writer.remove([0])
        writer.commit()
        assert pool.map(length_of, [str(saved)] * 6) == [299] * 6


def length_of(path):
    return len(pcpq.open(path))
