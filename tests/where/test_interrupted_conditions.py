"""Ctrl-C while a condition is evaluated is a KeyboardInterrupt, and the index can be searched afterwards."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import pcpq
import pcpq.search.where as where_module

ROWS = 300_000
SLOW = " + ".join(f"sin(n * {factor})" for factor in range(150)) + " > 1000"


@pytest.fixture(scope="module")
def index():
    vectors = np.random.default_rng(4).normal(size=(ROWS, 2)).astype(np.float32)
    index = pcpq.build(vectors, metric="dot", n_lists=4, keep="int8", attributes={"n": np.arange(ROWS)})
    index.search(vectors[0], where="n < 9")  # imports duckdb, which does not survive every interruption
    return index


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_in_a_condition_is_a_keyboard_interrupt(index):
    # Ignored where tests run in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for number, after in enumerate((0.0, 0.005, 0.02, 0.1, 0.3)):
            pressing = threading.Event()
            ended = threading.Event()

            def press(after=after, pressing=pressing, ended=ended):
                pressing.wait()
                time.sleep(after)
                # Again, if need be: Python drops what a signal raises within a callback of its own.
                while not ended.is_set():
                    os.kill(os.getpid(), signal.SIGINT)
                    ended.wait(2.0)

            presser = threading.Thread(target=press)
            presser.start()
            try:
                pressing.set()
                index.search(np.ones(2, np.float32), where=f"{SLOW} AND n > {number}")
            except KeyboardInterrupt:
                found = "interrupted"
            else:
                found = "done"
            finally:
                ended.set()
                presser.join()
            assert found == "interrupted"
    finally:
        signal.signal(signal.SIGINT, before)
    assert index.search(np.ones(2, np.float32), 3, where="n < 2").ids.tolist()[2] == -1


def test_an_interruption_before_the_work_has_begun_leaves_no_thread_behind(index, monkeypatch):
    def interrupted(work, count):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(where_module.helpers, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.search(np.ones(2, np.float32), where="n < 77")
    assert not [thread for thread in threading.enumerate() if thread.name == "pcpq-where-stop"]
    assert len(index.ids(where="n < 77")) == 77


def test_a_condition_is_evaluated_where_no_thread_can_be_started(index, monkeypatch):
    asked = []
    monkeypatch.setattr(where_module.helpers, "start", lambda work, count: asked.append(work) or [])
    assert len(index.ids(where="n < 78")) == 78
    for work in asked:
        work()  # a thread that was asked in vain does nothing
    assert len(index.ids(where="n < 79")) == 79
