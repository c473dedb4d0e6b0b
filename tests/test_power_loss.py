"""After a power loss an index is as before a commit or as after it; once a commit has returned, as after."""

import shutil

import numpy as np
import pytest
from patched_os import patch_os
from power_loss import Disk, RecordingOs, write_tree
from small_indexes import TORTURE, VECTORS, answers, small_index, some_vectors

import pcpq

pytestmark = pytest.mark.torture

IDS = range(0, 420, 9)
LOSSES = 40 if TORTURE else 3  # at every call
NOTHING = "nothing"


class Recorded:
    """Calls of a program, and what the index answered at each of its marks."""

    def __init__(self, root, monkeypatch, forget=()):
        self.os = RecordingOs(root, forget)
        self.root, self.path = root, root / "new" / "deep" / "index"
        self.states = [NOTHING]
        self.monkeypatch = monkeypatch

    def run(self, program):
        with self.monkeypatch.context() as patch:
            patch_os(patch, self.os)
            program(self)

    def step(self, act, index):
        """Do what makes the index durable as it is now."""
        self.states.append(answers(index, IDS))
        self.os.mark(("begun", len(self.states) - 1))
        act()
        self.os.mark(("returned", len(self.states) - 1))


def save_and_commit(recorded):
    """A new index in new directories, commits with and without merging, one index saved over another."""
    index = small_index()
    index.add(VECTORS[:60], attributes={"place": np.arange(60)})
    recorded.step(lambda: index.save(recorded.path), index)
    with pcpq.open(recorded.path, mode="a") as writer:
        writer.add(VECTORS[60:72], np.arange(400, 412), attributes={"place": np.arange(12)})
        writer.remove([9, 18])
        recorded.step(writer.commit, writer)
        writer.upsert(some_vectors(6, seed=8), np.arange(27, 33), attributes={"place": np.arange(6)})
        recorded.step(writer.commit, writer)
        writer.compact()
        recorded.step(writer.commit, writer)
    other = pcpq.build(some_vectors(30, seed=5), metric="euclidean", n_lists=2)
    recorded.step(lambda: other.save(recorded.path), other)


def back_up(copy):
    def program(recorded):
        index = small_index()
        index.add(VECTORS[:60])
        recorded.os.mark(("begun", 0))
        source = recorded.root / "source"
        index.save(source)
        opened = pcpq.open(source)
        recorded.step(lambda: opened.backup(recorded.path, copy=copy), opened)

    return program


def lose_power(recorded, scratch, losses, seed=0):
    """Open what is left after losses at every call: what was seen, and what was wrong."""
    generator, disk = np.random.default_rng(seed), Disk(recorded.root)
    begun = returned = 0
    seen, wrong, tried = {}, [], set()
    for number, event in enumerate(recorded.os.events):
        if event[0] == "mark":
            what, state = event[1]
            begun, returned = (state, returned) if what == "begun" else (begun, state)
        else:
            disk.apply(event)
        for _ in range(losses):
            tree = disk.after_loss(generator)
            key = (hash(frozenset(tree.items())), returned, begun)
            if key in tried:
                continue
            tried.add(key)
            shutil.rmtree(scratch, ignore_errors=True)
            write_tree(tree, scratch)
            path = scratch / recorded.path.relative_to(recorded.root)
            try:
                with pcpq.open(path) as index:
                    index.verify()
                    found = answers(index, IDS)
            except FileNotFoundError:
                found = NOTHING
            except Exception as error:
                found = repr(error)
            if found not in recorded.states[returned : begun + 1]:
                wrong.append((number, event[0], returned, begun, str(found)[:200]))
            else:
                seen.setdefault(recorded.states.index(found), 0)
                seen[recorded.states.index(found)] += 1
    return seen, wrong, len(tried)


PROGRAMS = {"commits": save_and_commit, "backup": back_up(False), "backup by copies": back_up(True)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_power_loss_leaves_the_generation_before_or_after(name, tmp_path, monkeypatch, record_property):
    (tmp_path / "disk").mkdir()
    recorded = Recorded(tmp_path / "disk", monkeypatch)
    recorded.run(PROGRAMS[name])
    seen, wrong, tried = lose_power(recorded, tmp_path / "left", LOSSES)
    record_property("power losses", tried)
    assert not wrong
    assert set(seen) == {
        recorded.states.index(state) for state in recorded.states
    }  # each was there at some moment


@pytest.mark.parametrize("forgotten", ["file", "directory", "parent"])
def test_the_replay_notices_a_missing_sync(forgotten, tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    recorded = Recorded(tmp_path / "disk", monkeypatch, forget=[forgotten])
    recorded.run(save_and_commit)
    _, wrong, _ = lose_power(recorded, tmp_path / "left", 3)
    assert wrong
