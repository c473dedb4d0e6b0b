"""The environment of a measurement: command, processor and versions."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from pcpq import _core
from pcpq.util.threads import available_threads

# Options whose value is a local path, which is not published.
FOLDERS = ("--data", "--out")


def environment(*packages: str) -> dict[str, Any]:
    """Return the command, commit, date, processor, and versions of pcpq, NumPy, Python and other packages."""
    return {
        "command": command(sys.argv),
        **commit(Path.cwd()),
        "date": date.today().isoformat(),
        "cpu": processor(),
        "cpus": available_threads(None),
        "simd": _core.simd_level(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pcpq": metadata.version("pcpq"),
        **{package: metadata.version(package) for package in packages},
    }


def commit(folder: Path) -> dict[str, str]:
    """Return the commit of the pcpq repository around a folder, with "+" if files differ from it."""

    def git(*arguments: str) -> str:
        asked = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
        return asked.stdout.strip()

    try:
        top = Path(git("rev-parse", "--show-toplevel"))
        if not (top / "src" / "pcpq" / "__init__.py").exists():
            return {}
        changed = git(
            "status", "--porcelain", "--untracked-files=no", "--", str(top), ":(top,exclude)benchmarks/results"
        )
        return {"commit": git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")}
    except (OSError, subprocess.CalledProcessError):
        return {}


def processor() -> str:
    """Return the name of the processor, as far as the system gives it.

    Virtual machines often name a brand only; family and model then tell its generation.
    """
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "model name" not in facts:
        return platform.processor()
    name, family, model = (facts.get(key) for key in ("model name", "cpu family", "model"))
    return f"{name}" if family is None else f"{name} (family {family}, model {model})"


def command(arguments: list[str]) -> str:
    """Return the command line with local folders replaced by FOLDER."""
    program = Path(arguments[0])
    shown = ["pcpq"] if program.name == "pcpq" else ["python", os.path.relpath(program)]
    hide = False
    for argument in arguments[1:]:
        shown.append("FOLDER" if hide else argument)
        hide = argument in FOLDERS
    return " ".join(shown)
