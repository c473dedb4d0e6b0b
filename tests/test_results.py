"""Committed results say which commit they were measured on, and which code their numbers depend on."""

import json
import subprocess
from pathlib import Path

import pytest

from pcpq.experiments import environment

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parent.parent
COMMITTED = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.fixture
def results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import results

    return results


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_a_result_has_the_commit_it_was_measured_on_or_an_old_one_that_added_it(path, results):
    found = list(results.runs(json.loads(path.read_text())))
    assert found
    assert all((run.commit is None) != (run.committed_in is None) for run in found)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_the_code_of_a_result_is_there(path, results):
    for run in results.runs(json.loads(path.read_text())):
        named = [name for name in results.paths(run.program) if not name.startswith(":")]
        assert len(named) > len(results.CORE)
        assert all((ROOT / name).exists() for name in named)


def test_an_unknown_program_is_named(results):
    with pytest.raises(ValueError, match="'make haste' is not known"):
        results.paths("make haste")


def test_modules_are_found_through_imports(results):
    found = results.modules("benchmarks/peers.py", ROOT)
    assert {"benchmarks/peers.py", "benchmarks/peers_indexes.py", "benchmarks/common.py"} <= set(found)
    assert "benchmarks/kernels.py" not in found


@pytest.fixture
def commit(tmp_path):
    """Write a file of a repository and commit it; returns the commit."""

    def git(*arguments):
        identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(name, content):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
        git("add", ".")
        git("commit", "-m", name)
        return git("rev-parse", "--short", "HEAD")

    git("init", "-q")
    return commit


def result_of(commit, command="python benchmarks/speed.py --rounds 3"):
    return json.dumps({"part": {"environment": {"command": command, **({"commit": commit} if commit else {})}}})


def test_commits_are_counted_that_touch_code_of_a_result(tmp_path, results, commit):
    path = Path("benchmarks") / "results" / "speed.json"
    commit("benchmarks/helper.py", "")
    commit("benchmarks/other.py", "")
    first = commit("benchmarks/speed.py", "import helper\n")
    commit(path, result_of(first))
    expected = f"speed.json: measured at {first}; {{}} commits since touched its code"
    assert list(results.state(path, tmp_path)) == [(expected.format(0), 0)]
    commit("README.md", "new")
    commit("benchmarks/other.py", "new")
    commit("src/pcpq/cli/commands.py", "new")
    assert list(results.state(path, tmp_path)) == [(expected.format(0), 0)]
    commit("benchmarks/helper.py", "new")
    commit("src/pcpq/index.py", "new")
    commit("cpp/scan.cpp", "new")
    assert list(results.state(path, tmp_path)) == [(expected.format(3), 3)]


def test_without_a_commit_that_of_the_file_counts(tmp_path, results, commit):
    path = Path("benchmarks") / "results" / "speed.json"
    commit("benchmarks/speed.py", "")
    added = commit(path, result_of(None))
    commit("src/pcpq/index.py", "new")
    assert list(results.state(path, tmp_path)) == [
        (f"speed.json: measured before {added}; 1 commits since touched its code", 1)
    ]


def test_a_commit_that_is_not_in_the_repository_is_said_to_be_missing(tmp_path, results, commit):
    path = Path("benchmarks") / "results" / "speed.json"
    commit("benchmarks/speed.py", "")
    commit(path, result_of("0123456789ab+"))
    assert list(results.state(path, tmp_path)) == [
        ("speed.json: measured at 0123456789ab+, which this repository does not have", None)
    ]


def test_an_environment_names_the_commit_and_whether_files_differ_from_it(tmp_path, commit):
    assert environment.commit(tmp_path) == {}  # not a repository of pcpq
    first = commit("src/pcpq/__init__.py", "")
    (short,) = environment.commit(tmp_path / "src").values()
    assert short.startswith(first)
    (tmp_path / "untracked").write_text("")
    commit("benchmarks/results/speed.json", "{}")
    (tmp_path / "benchmarks" / "results" / "speed.json").write_text("[]")  # a benchmark has just written it
    (clean,) = environment.commit(tmp_path).values()
    (tmp_path / "src" / "pcpq" / "__init__.py").write_text("new")
    assert environment.commit(tmp_path) == {"commit": clean + "+"}
    assert not clean.endswith("+")
