"""Figures of `make torture`, from the reports of its tests and of its fuzzer, as a committed result.

    python tools/torture.py build/torture.json build/torture*.xml

A test tells its figures by pytest's `record_property`. Nothing is written unless all of them passed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from pcpq.experiments.environment import environment

RESULT = Path(__file__).parent.parent / "benchmarks" / "results" / "torture.json"


def figures(reports: list[Path]) -> tuple[Counter[str], dict[str, int], float]:
    """How tests ended, what they counted, and the seconds they took."""
    ended: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    seconds = 0.0
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {"failure", "error", "skipped"} & {child.tag for child in case}
            ended[kinds.pop() if kinds else "passed"] += 1
            seconds += float(case.get("time", 0))
            for found in case.iter("property"):
                counted[str(found.get("name"))] += int(found.get("value", 0))
    return ended, dict(sorted(counted.items())), seconds


def main() -> int:
    """Write the result, or say what failed."""
    fuzzed = json.loads(Path(sys.argv[1]).read_text())
    ended, counted, seconds = figures([Path(name) for name in sys.argv[2:]])
    if ended["failure"] or ended["error"] or not ended["passed"]:
        print(f"not written: {dict(ended)}", file=sys.stderr)
        return 1
    result = {
        "environment": environment() | {"command": "make torture"},
        "tests": dict(ended),
        "test_seconds": round(seconds),
        "figures": counted,
        "forged_indexes": fuzzed,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
