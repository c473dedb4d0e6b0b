"""Write the figures of `make torture` to a committed result, from the reports of its tests and its fuzzer.

    python tools/torture.py build/torture.json build/torture*.xml

Tests report their figures by pytest's `record_property`. The result is written only if all tests passed.
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
    """Return the outcomes of tests, the sums of their figures, and their total time in seconds."""
    outcomes: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    seconds = 0.0
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {"failure", "error", "skipped"} & {child.tag for child in case}
            outcomes[kinds.pop() if kinds else "passed"] += 1
            seconds += float(case.get("time", 0))
            for found in case.iter("property"):
                counted[str(found.get("name"))] += int(found.get("value", 0))
    return outcomes, dict(sorted(counted.items())), seconds


def main() -> int:
    """Write the result, or print the outcomes if tests failed."""
    fuzzed = json.loads(Path(sys.argv[1]).read_text())
    outcomes, counted, seconds = figures([Path(name) for name in sys.argv[2:]])
    if outcomes["failure"] or outcomes["error"] or not outcomes["passed"]:
        print(f"not written: {dict(outcomes)}", file=sys.stderr)
        return 1
    result = {
        "environment": environment() | {"command": "make torture"},
        "tests": dict(outcomes),
        "test_seconds": round(seconds),
        "figures": counted,
        "forged_indexes": fuzzed,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
