"""Functions that all tables share: the results folder, Markdown, and the line about the machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def markdown(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def ran_in(where: dict[str, Any]) -> str:
    """Return the command of a result, the machine it ran on, and the commit."""
    commit = f", commit {where['commit']}" if "commit" in where else ""
    return (
        f"`{where['command']}`, {where['cpu']}, {where['simd']}, {where['cpus']} CPU, {where['date']}{commit}."
    )
