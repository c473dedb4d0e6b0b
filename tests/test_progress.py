"""Bars on a terminal."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr

import numpy as np
import pytest

import pcpq
from pcpq.util.progress import Bar, Line, Progress, progress_bar


class Terminal(io.StringIO):
    """What is written to it can be read."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(3).normal(size=(2500, 6)).astype(np.float32)


@pytest.mark.parametrize("kind", [Bar, Line])
def test_every_step_is_named_however_short_it_is(kind, monkeypatch):
    if kind is Bar:
        pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    with redirect_stderr(terminal), kind(2, "rows") as bar:
        for step in ("learning", "adding", "writing"):
            bar.say(step)
            bar.advance(0.5)
    assert [step for step in ("learning", "adding", "writing") if step not in terminal.getvalue()] == []


def test_nothing_is_drawn_without_a_terminal(capsys):
    with progress_bar(3, "rows") as bar:
        assert type(bar) is Progress
        bar.say("adding")
        bar.advance(1)
        bar.reach(2, 3)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("rich", [True, False])
def test_true_shows_a_bar_on_a_terminal(rich, vectors, monkeypatch):
    if rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    with redirect_stderr(terminal):
        index = pcpq.build(vectors, metric="dot", progress=True)
        index.add(vectors[:5], progress=True)
        index.upsert(vectors[:5], range(5), progress=True)
    for step in ("learning from a sample", "adding vectors", "measuring recall"):
        assert step in terminal.getvalue()


def test_true_writes_plain_lines_without_a_terminal(vectors, capsys):
    pcpq.build(vectors, metric="dot", progress=True).add(vectors[:5], progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.split("[")[0].strip() for line in shown.err.splitlines()] == [
        "learning from a sample",
        "adding vectors",
        "measuring recall",
        "measuring recall",
        "adding vectors",
        "adding vectors",
    ]
    assert "\r" not in shown.err


def test_functions_are_called_and_other_values_refused(vectors, capsys):
    calls = []
    index = pcpq.build(vectors, metric="dot", progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (len(vectors), len(vectors))
    index.add(iter([vectors[:5]]), progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (5, None)
    pcpq.build(vectors, metric="dot", progress=False)
    with pytest.raises(ValueError, match="progress is 3; expected True, or a function of done and total"):
        index.add(vectors, progress=3)
    assert capsys.readouterr() == ("", "")
