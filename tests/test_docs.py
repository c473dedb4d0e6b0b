"""What the pages say is what was measured, and what they show runs."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sys.modules.pop("tables", None)
    import tables

    return tables


def test_tables_are_the_committed_results(tables):
    for path in tables.PAGES:
        text = path.read_text()
        assert "<!-- table:" in text
        assert tables.filled(text) == text, f"{path.name} is out of date: run python benchmarks/tables.py"


def test_the_readmes_python_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert blocks
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), space)


def test_the_demo_answers_for_a_word(capsys):
    from pcpq.demo import main

    main(["piano"])
    shown = capsys.readouterr().out
    assert "violin" in shown
    assert "recall 10@10" in shown
    assert "bytes a vector" in shown


def test_the_demo_names_a_word_it_does_not_know(capsys):
    from pcpq.demo import main

    with pytest.raises(SystemExit):
        main(["xyzzyplugh"])
    assert "not among the 20000 words: xyzzyplugh" in capsys.readouterr().err
