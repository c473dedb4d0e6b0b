"""A writer is killed or interrupted, again and again: what it committed is there, and the next one goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import kill_loop
import numpy as np
import pytest
from small_indexes import TORTURE, files

import pcpq

pytestmark = pytest.mark.torture

KILLS = 1000 if TORTURE else 20
SIGKILLED = 9  # as os.waitpid says it; Windows, which collects these tests and runs none, has no name for it


class Writers:
    """Processes that write to one index one after the other."""

    def __init__(self, path, kind):
        self.path, self.kind = path, kind
        kill_loop.new_index(path, kind)
        self.step = 0
        command = [sys.executable, str(Path(kill_loop.__file__))]
        # Signals interrupt coverage as well, which then waits for its own lock for ever.
        own = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        self.loop = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own)

    def start(self, die_at=-1):
        self.loop.stdin.write(f"{self.path}\t{self.kind}\t{self.step}\t{die_at}\n")
        self.loop.stdin.flush()

    def started(self, generator, lines, seconds):
        """At any moment of a new process: the last step that began, and the last that was done; the process."""
        self.start()
        begun = done = self.step
        for _ in range(generator.integers(1, lines + 1)):
            what, step, process = self.line()
            begun, done = (step, done) if what == "begin" else (begun, step)
        time.sleep(generator.uniform(0, seconds))
        return begun, done, process

    def line(self):
        """What is going on, of which step, and in which process."""
        line = self.loop.stdout.readline()
        assert line.count(" ") == 2, line
        what, number, process = line.split()
        return what, int(number), int(process)

    def until_gone(self, begun, done):
        """The last step that began, and the last that was done; how the process ended."""
        while True:
            what, number, _ = self.line()
            if what == "gone":
                return begun, done, number
            begun, done = (number, done) if what == "begin" else (begun, number)

    def survived(self, begun, done):
        """Check that the index is as after the step that was done or the one that had begun; go on from it."""
        index = pcpq.open(self.path)
        found = {step for step in (done, begun) if same(index, self.kind, kill_loop.model_at(step))}
        assert found, f"neither step {done} nor {begun}"
        index.close()
        self.step = max(found)
        return self.step

    def close(self):
        self.loop.stdin.close()
        self.loop.kill()
        self.loop.wait()
        self.loop.stdout.close()


@pytest.fixture(params=["int", "str"])
def writers(request, tmp_path):
    started = Writers(tmp_path / "index", request.param)
    yield started
    started.close()


def same(index, kind, model):
    """Whether an index holds exactly these ids, with these vectors, and finds them by brute force."""
    names = {kill_loop.name_of(number, kind): number for number in model}
    if len(index) != len(names):
        return False
    query = np.float32([1, -0.5, 2, 0.25])
    found = index.search(query, k=len(names) + 5, probes=kill_loop.N_LISTS, rerank=1000)
    assert found.ids[len(names) :].tolist() == [-1 if kind == "int" else None] * 5
    ids = found.ids[: len(names)].tolist()
    if set(ids) != set(names):
        return False
    wanted = np.stack([kill_loop.vector_of(names[one], model[names[one]]) for one in ids])
    if not np.array_equal(index.reconstruct(ids), wanted):
        return False
    assert np.allclose(found.scores[: len(names)], wanted @ query, atol=1e-5)
    absent = [kill_loop.name_of(number, kind) for number in range(kill_loop.N_IDS) if number not in model]
    assert all(one in index for one in ids)
    assert not any(one in index for one in absent)
    return True


def test_the_check_tells_one_step_from_the_next(tmp_path):
    kill_loop.new_index(tmp_path / "index", "int")
    model = kill_loop.start()
    with pcpq.open(tmp_path / "index", mode="a") as index:
        for step in range(1, 13):
            assert same(index, "int", kill_loop.model_at(step - 1))
            kill_loop.apply(index, "int", step, model)
            index.commit()
            assert model == kill_loop.model_at(step)
            assert same(index, "int", model)
            assert not same(index, "int", kill_loop.model_at(step - 1))


def test_what_was_committed_survives_kills_at_any_moment(writers, record_property):
    generator = np.random.default_rng(5)
    seen = {"done": 0, "begun": 0}
    for _ in range(KILLS // 2):
        begun, done, process = writers.started(generator, lines=5, seconds=0.012)
        os.kill(process, signal.SIGKILL)
        begun, done, status = writers.until_gone(begun, done)
        assert status == SIGKILLED
        assert begun - done in (0, 1)
        survivor = writers.survived(begun, done)
        seen["done" if survivor == done else "begun"] += 1
    record_property("kills at any moment", KILLS // 2)
    assert writers.step > KILLS // 4
    if TORTURE:
        assert min(seen.values()) > 0
    only_what_is_named(writers.path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_what_was_committed_survives_interruptions_at_any_moment(number, writers, record_property):
    generator = np.random.default_rng(6)
    said = {"stopped": 0, "committed": 0}
    for _ in range(KILLS // 2):
        begun, done, process = writers.started(generator, lines=3, seconds=0.006)
        os.kill(process, number)
        stopped, unheard = None, 0
        while True:
            what, step, _ = writers.line()
            if what == "gone":
                break
            if what == "begin":
                begun = step
                unheard += 1
                if unheard > 1:  # Python drops what a handler raises within a callback: a user presses again
                    with suppress(ProcessLookupError):
                        os.kill(process, number)
            elif what == "done":
                done = step
            else:
                stopped = what, step
                said[what] += 1
        assert step == 0  # it ended as it should
        survivor = writers.survived(begun, done)
        if stopped is not None and done < stopped[1]:
            # What the exception said of the commit that it came from is true.
            assert survivor == (stopped[1] if stopped[0] == "committed" else stopped[1] - 1)
    record_property(f"{number.name} at any moment", KILLS // 2)
    record_property(f"{number.name} within a commit", sum(said.values()))
    record_property(f"{number.name} after the rename", said["committed"])
    if TORTURE:
        assert min(said.values()) > 0
    only_what_is_named(writers.path)


def test_a_commit_killed_at_any_of_its_calls_leaves_the_old_or_the_new(writers, record_property):
    died, outcomes = 0, []
    stride = 1 if TORTURE else 5
    for die_at in range(0, 500, stride):
        before = writers.step
        writers.start(die_at)
        begun, done, status = writers.until_gone(before, before)
        assert begun == before + 1
        died += status == SIGKILLED
        if status == 0:
            assert done == begun
        survivor = writers.survived(begun, done)
        assert survivor >= done
        outcomes.append(survivor - before)
        if status == 0:
            break
        assert status == SIGKILLED
    record_property("kills at a system call", died)
    assert status == 0  # at last it had more lives than calls
    assert died >= 25 / stride
    assert 0 in outcomes[:-1]
    only_what_is_named(writers.path)


def only_what_is_named(path):
    """The next writer leaves nothing of those before it but the index."""
    with pcpq.open(path, mode="a") as index:
        index.commit()
    manifest = json.loads((path / "manifest.json").read_text())
    named = {manifest["trained"]["file"], "manifest.json", "lock"}
    for part in manifest["parts"]:
        named |= {part["segment"]["file"]} | ({part["live"]["file"]} if part["live"] else set())
    assert set(files(path)) == named
