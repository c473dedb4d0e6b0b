"""Close and commit of several threads, and within signal handlers."""

import os
import signal
import threading

import numpy as np
import pytest
from small_indexes import VECTORS

import pcpq
from pcpq.store import files as storage_files
from pcpq.store import store as storage_store
from pcpq.util import durable_files, system

pytestmark = pytest.mark.torture


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


def test_an_index_that_is_closed_while_a_commit_begins_says_so(saved, monkeypatch):
    writer = pcpq.open(saved, mode="a")
    writer.add(VECTORS[:1], [1000])
    monkeypatch.setattr(writer._maps, "refuse_changed_sizes", writer.close)
    with pytest.raises(ValueError, match="closed"):
        writer.commit()
    assert 1000 not in pcpq.open(saved)


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
