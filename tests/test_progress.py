"""Bars on a terminal."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import pytest

from pcpq.util.progress import Bar, Line, Progress, progress_bar


class Terminal(io.StringIO):
    """What is written to it can be read."""

    def isatty(self) -> bool:
        return True


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
