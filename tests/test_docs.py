"""What the pages say is what was measured, and what they show runs."""

import re
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
# Their commands take hours, are made from the command line's own help, which has tests, or run until Ctrl-C.
COMMANDS_NOT_RUN = ("paper.md", "cli.md", "explore.md")


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sys.modules.pop("tables", None)
    import tables

    return tables


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import pages

    return pages


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import measured

    return measured


def test_tables_are_the_committed_results(tables):
    for path in tables.PAGES:
        text = path.read_text()
        assert "<!-- table:" in text
        assert tables.filled(text) == text, f"{path.name} is out of date: run python benchmarks/tables.py"


def test_measured_tables_and_plots_are_the_committed_results(measured):
    assert measured.pages()
    for path in measured.pages():
        text = path.read_text()
        assert measured.filled(text) == text, f"{path.name} is out of date: run python tools/measured.py"
    for name in measured.PICTURES:
        assert measured.is_current(name), f"docs/plots/{name}.svg is out of date: run python tools/measured.py"


def test_the_readmes_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert blocks
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), space)


def marked(name):
    """Return a page as a parameter; those of integrations have a marker."""
    return pytest.param(name, marks=[pytest.mark.integrations] if name.startswith("integrations/") else [])


@pytest.mark.parametrize("name", [marked(name) for name in PAGES])
def test_a_page_runs_from_top_to_bottom_and_prints_what_it_shows(name, pages, tmp_path, monkeypatch):
    path, space = DOCS / name, {"__name__": Path(name).stem}
    monkeypatch.chdir(tmp_path)
    for block in pages.blocks_of(path.read_text()):
        if not block.can_run or (block.language == "sh" and name in COMMANDS_NOT_RUN):
            continue
        printed = pages.run_block(block, path, space)
        if block.shown is not None and not (block.language == "sh" and not printed):
            agrees = pages.agrees(printed, block.shown, block.about)
            assert agrees, f"{name}, line {block.line}: run python tools/pages.py docs/{name}\n{printed}"


def test_blocks_that_are_not_run_need_a_peer_or_what_is_being_written(pages):
    blocks = [block for name in PAGES for block in pages.blocks_of((DOCS / name).read_text())]
    needs = {need for block in blocks for need in block.needs}
    peers = {"faiss", "scann", "hnswlib"}
    libraries = {"pyarrow", "duckdb", "sklearn", "umap", "langchain_core", "llama_index", "ray"}
    assert needs <= peers | libraries | {"torch", "pandas", "polars", "bytes_per_vector"}


def test_every_page_is_reached_from_the_first(pages):
    first = (DOCS / "index.md").read_text()
    trees = re.findall(r"```\{toctree\}\n(.*?)```", first, flags=re.DOTALL)
    listed = [word.strip("<>") for tree in trees for word in tree.split()]
    for name in PAGES:
        page = Path(name).with_suffix("")
        assert name == "index.md" or any(page.match(entry) for entry in listed), name


def test_numbers_of_a_block_may_be_about_right_only_where_it_says_so(pages):
    assert pages.agrees("a 100  b\n", "a 100 b", False)
    assert not pages.agrees("a 101 b", "a 100 b", False)
    assert pages.agrees("a 1,200 b 0.95", "a 1,000 b 0.96", True)
    assert not pages.agrees("a 1,600 b", "a 1,000 b", True)
    assert not pages.agrees("a 0.95 b", "a 0.85 b", True)
    assert not pages.agrees("a 100 c", "a 100 b", True)
    assert not pages.agrees("a 100 b 1", "a 100 b", True)


def test_blocks_know_what_they_need_and_show(pages):
    page = (
        "```python needs=faiss,scann\na = 1\n```\n\ntext\n\n```python\nprint(1)\n```\n\n```text about\n1\n```\n"
        '<div class="beside">\n\n```python\nb = 1\n```\n\n```python\nb = 2\n```\n\n</div>\n\n```text\n2\n```\n'
        "```python\nc = 1\n```\n\nin between\n\n```text\n3\n```\n"
    )
    found = pages.blocks_of(page)
    assert [block.needs for block in found] == [("faiss", "scann"), (), (), (), ()]
    assert [block.shown for block in found] == [None, "1\n", "2\n", "2\n", None]
    assert [block.about for block in found] == [False, True, False, False, False]
    assert found[1].line == 8


def test_the_demo_answers_for_a_word(capsys):
    from pcpq.cli.demo import main

    main(["piano"])
    shown = capsys.readouterr().out
    assert "violin" in shown
    assert "recall 10@10" in shown
    assert "bytes per vector" in shown


def test_the_demo_names_an_unknown_word(capsys):
    from pcpq.cli.demo import main

    with pytest.raises(SystemExit):
        main(["xyzzyplugh"])
    assert "not among the 20,000 words: xyzzyplugh" in capsys.readouterr().err


# CONTRIBUTING explains why no module has this name.
NAMES_OF_NO_FILE = {"build.py", "build/compile_commands.json"}  # the second is made by make lint
PATH_LIKE = re.compile(r"[\w.*-]+\.(?:h|cpp|inl|py|json|sh)|[\w.*-]+(?:/[\w.*-]+)+/?|[\w.-]+/")


def path_names(text):
    """Return the names in backticks that look like a path, outside of code blocks."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return {name for name in re.findall(r"`([^`\n]+)`", outside) if PATH_LIKE.fullmatch(name)}


def is_in_tree(name):
    """Return whether a file or folder of the repository has this name, with or without its folders."""
    tops = (
        ROOT / top
        for top in (".github", "benchmarks", "cmake", "cpp", "docs", "examples", "src", "tests", "tools")
    )
    return any(ROOT.glob(name)) or any(match for top in tops for match in top.glob(f"**/{name.rstrip('/')}"))


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", *(f"docs/{name}" for name in PAGES)])
def test_paths_that_a_page_names_exist(page):
    named = path_names((ROOT / page).read_text()) - NAMES_OF_NO_FILE
    assert not [name for name in sorted(named) if not is_in_tree(name)]


def test_path_names_are_found_outside_of_code_blocks():
    text = "`cpp/kernels/scan.h`, `packing.py`, `a / b`, `io/formats/`, `x`\n```sh\n`gone.py`\n```\n"
    assert path_names(text) == {"cpp/kernels/scan.h", "packing.py", "io/formats/"}
