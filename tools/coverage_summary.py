"""Write benchmarks/results/coverage.json from the reports of coverage.py and gcovr: make coverage"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from pcpq.experiments.environment import environment

RESULT = Path(__file__).parent.parent / "benchmarks" / "results" / "coverage.json"

# Lines that ran, and lines that can run, by folder.
Counts = dict[str, list[int]]


def python_counts(report: Path) -> Counts:
    """Return the counts of a JSON report of coverage.py, by package below pcpq."""
    files = json.loads(report.read_text())["files"]
    return by_folder(
        (path.partition("pcpq/")[2], found["summary"]["covered_lines"], found["summary"]["num_statements"])
        for path, found in files.items()
    )


def native_counts(report: Path) -> Counts:
    """Return the counts of a JSON summary of gcovr, by folder below cpp."""
    files = json.loads(report.read_text())["files"]
    return by_folder(
        (file["filename"].partition("cpp/")[2], file["line_covered"], file["line_total"]) for file in files
    )


def by_folder(files: Iterable[tuple[str, int, int]]) -> Counts:
    """Return sums of (path, covered, lines) by the first folder of each path; "" has files without a folder."""
    counts: Counts = defaultdict(lambda: [0, 0])
    for path, covered, lines in files:
        folder = path.rpartition("/")[0].partition("/")[0]
        counts[folder][0] += covered
        counts[folder][1] += lines
    return dict(sorted(counts.items()))


def main() -> None:
    """Write the summary and print it."""
    python, native = python_counts(Path(sys.argv[1])), native_counts(Path(sys.argv[2]))
    result = {"environment": environment() | {"command": "make coverage"}, "python": python, "cpp": native}
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for language, counts in (("Python", python), ("C++", native)):
        covered, lines = (sum(column) for column in zip(*counts.values(), strict=True))
        print(f"{language}: {covered} of {lines} lines ({covered / lines:.1%})")


if __name__ == "__main__":
    main()
