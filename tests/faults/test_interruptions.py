"""Ctrl-C after every call and before every line: an index is the old one or the new one."""

import copy
import itertools
import linecache
import os
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from faulty_os import IDS, another_writer_goes_on, change, commit_more
from patched_os import patch_os
from small_indexes import QUERIES, TORTURE, VECTORS, answers, files

import pcpq
from pcpq.store import files as storage_files
from pcpq.util.system import lock_alone

pytestmark = pytest.mark.torture


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
        """Return the exception of this kind that a call raises, or None."""
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
        "changes.py",
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
        """Return the KeyboardInterrupt that a call raises, or None."""
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
