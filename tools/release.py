"""Check that a tag can be released: python tools/release.py v0.1.0

The version is `__version__` in src/pcpq/__init__.py. The tag, CITATION.cff and the newest entry of CHANGELOG.md
must agree with it, and the entry must have a date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def problems(tag: str, project: Path = PROJECT) -> list[str]:
    """Return reasons not to release a tag; an empty list if it can be released."""
    version = found(r'^__version__ = "(.+)"$', project / "src" / "pcpq" / "__init__.py")
    cited = found(r"^version: (.+)$", project / "CITATION.cff")
    newest = found(r"^## (.+)$", project / "CHANGELOG.md")
    wrong = []
    if tag != f"v{version}":
        wrong.append(f"the tag is {tag}, the version is {version}")
    if cited != version:
        wrong.append(f"CITATION.cff has version {cited}, the version is {version}")
    if not re.fullmatch(re.escape(version) + r" \(\d{4}-\d\d-\d\d\)", newest):
        wrong.append(f"the newest entry of CHANGELOG.md is '{newest}'; expected '{version} (year-month-day)'")
    return wrong


def found(pattern: str, path: Path) -> str:
    """Return the first match in a file."""
    match = re.search(pattern, path.read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{path}: nothing matches {pattern}")
    return match[1]


def main() -> None:
    """Exit with the problems, if there are any."""
    if wrong := problems(sys.argv[1]):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
