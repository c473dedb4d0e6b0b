"""Bars, tables and colours on a terminal."""

import os
import re

import numpy as np
import pytest
from command_line import on_terminal

import pcpq
from pcpq.cli import main


@pytest.mark.parametrize("with_rich", [True, False])
def test_a_bar_with_rate_and_time_left_shows_on_a_terminal(with_rich, tmp_path):
    if with_rich:
        pytest.importorskip("rich")
    (tmp_path / "hidden").mkdir()
    if not with_rich:
        (tmp_path / "hidden" / "rich.py").write_text("raise ImportError('hidden')")
    path = os.pathsep.join([str(tmp_path / "hidden"), os.environ.get("PYTHONPATH", "")])
    generator = np.random.default_rng(0)
    np.save(tmp_path / "few.npy", generator.normal(size=(3000, 64)).astype(np.float32))
    np.save(tmp_path / "rows.npy", generator.normal(size=(60_000, 64)).astype(np.float32))
    assert main(["build", str(tmp_path / "few.npy"), str(tmp_path / "index"), "--metric", "dot"]) == 0
    code, said, out = on_terminal("add", tmp_path / "index", tmp_path / "rows.npy", PYTHONPATH=path)
    assert code == 0
    assert "adding vectors" in said
    assert re.search(r"[\d,]+ vectors/s", said)
    assert re.search(r"\d+%", said)
    assert re.search(r"0:00:0\d left", re.sub(r"\x1b\[[\d;?]*\w", "", said))
    assert "63,000 vectors now" in out


def test_tables_are_coloured_on_a_terminal_and_nowhere_else(built, run, monkeypatch, capsys):
    pytest.importorskip("rich")
    plain = run("info", built / "words.pcpq")[1]
    assert "\x1b" not in plain
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich asks a terminal that is none
    coloured = run("info", built / "words.pcpq")[1]
    assert "\x1b[" in coloured
    assert "cosine" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("info", built / "words.pcpq")[1] == plain


def test_words_cannot_move_the_cursor(rows, run, tmp_path):
    names = ["\x1b[2Jevil", *map(str, range(len(rows) - 1))]
    pcpq.build(rows, names, metric="dot").save(tmp_path / "index")
    _, out, _ = run("search", tmp_path / "index", "--word", "\x1b[2Jevil", "-k", 2)
    assert "evil" in out
    assert "\x1b" not in out
