"""The version is stated once, and only a tag that agrees with it can be released."""

import importlib.metadata
from pathlib import Path

import pytest

import pcpq

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parent.parent


@pytest.fixture
def release(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import release

    return release


def test_the_package_the_citation_and_the_changelog_have_the_same_version(release):
    assert importlib.metadata.version("pcpq") == pcpq.__version__
    assert release.found("^version: (.+)$", ROOT / "CITATION.cff") == pcpq.__version__
    assert release.found("^## (\\S+) ", ROOT / "CHANGELOG.md") == pcpq.__version__


@pytest.fixture
def project(tmp_path):
    """Files of a project at version 1.2.3 that can be released."""
    (tmp_path / "src" / "pcpq").mkdir(parents=True)
    (tmp_path / "src" / "pcpq" / "__init__.py").write_text('import this\n\n__version__ = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-12-01)\n\n## 1.2.2 (2026-11-01)\n")
    return tmp_path


def test_a_tag_that_agrees_can_be_released(release, project):
    assert release.problems("v1.2.3", project) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("src/pcpq/__init__.py", "1.2.3", "1.2.4", "the tag is v1.2.3, the version is 1.2.4"),
        ("CITATION.cff", "1.2.3", "1.2.2", "CITATION.cff has version 1.2.2, the version is 1.2.3"),
        ("CHANGELOG.md", "2026-12-01", "unreleased", "the newest entry of CHANGELOG.md is '1.2.3 (unr"),
        ("CHANGELOG.md", "1.2.3", "1.2.1", "the newest entry of CHANGELOG.md is '1.2.1 (2026-12-01)'"),
    ],
)
def test_a_file_that_disagrees_is_named(file, old, new, problem, release, project):
    path = project / file
    path.write_text(path.read_text().replace(old, new))
    assert any(said.startswith(problem) for said in release.problems("v1.2.3", project))
