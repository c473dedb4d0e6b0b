"""What CI installs is locked, and what users install is bounded."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.repository

tomllib = pytest.importorskip("tomllib")

ROOT = Path(__file__).parent.parent


@pytest.fixture
def lock(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import lock

    return lock


def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_dependency_is_locked_at_a_version_that_is_allowed(lock):
    versions = lock.locked(lock.LOCK.read_text())
    wanted = [Requirement(text) for text in lock.wanted()]
    assert {"numpy", "nanobind", "ruff", "sphinx", "ray", "torch", "build"} <= {w.name for w in wanted}
    for requirement in wanted:
        version = versions.get(lock.normal(requirement.name))
        assert version is not None, f"{requirement.name} is not locked: run `make lock`"
        assert requirement.specifier.contains(version), f"{requirement} is locked at {version}: run `make lock`"


def test_every_extra_but_that_of_benchmarks_is_locked(lock):
    extras = pyproject()["project"]["optional-dependencies"]
    named = {package for extra in extras.keys() - {"bench"} for package in extras[extra]}
    assert named <= set(lock.wanted())


def test_the_lock_file_is_names_and_exact_versions_in_order(lock):
    lines = lock.LOCK.read_text().removeprefix(lock.HEADER).splitlines()
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines)
    names = [line.partition("==")[0] for line in lines]
    assert names == sorted(set(names))


def test_packages_that_are_not_as_locked_are_named(lock):
    versions = lock.locked("# a comment\na==1.0\nb==2.0\nunused==3.0\n")
    assert lock.differences({"a": "1.0", "b": "2.0", "pcpq": "0.1"}, versions) == []
    assert lock.differences({"a": "1.1", "c": "4.0"}, versions) == [
        "a is 1.1, locked: 1.0",
        "c is 4.0, locked: no version",
    ]


def test_a_dependency_of_users_and_builds_has_an_upper_bound():
    settings = pyproject()
    for text in settings["project"]["dependencies"] + settings["build-system"]["requires"]:
        operators = {bound.operator for bound in Requirement(text).specifier}
        assert operators & {"<", "=="}, text


def test_actions_are_pinned_by_commit_with_their_tag_beside():
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    used = [line for path in workflows for line in path.read_text().splitlines() if "uses: " in line]
    used = [line for line in used if "uses: ./" not in line]  # of this repository
    assert used
    for line in used:
        assert re.search(r"uses: [\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$", line), line
