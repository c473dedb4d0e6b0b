"""What every table needs: where results are, Markdown, and the line that says what they ran on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def markdown(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def ran_in(where: dict[str, Any]) -> str:
    """The command, and what it ran on."""
    commit = f", commit {where['commit']}" if "commit" in where else ""
    return (
        f"`{where['command']}`, {where['cpu']}, {where['simd']}, {where['cpus']} CPU, {where['date']}{commit}."
    )
