"""The environment of a measurement: command, processor and versions."""

from __future__ import annotations

import os
import platform
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
    """Return the command, the date, the processor, and versions of pcpq, NumPy, Python and other packages."""
    return {
        "command": command(sys.argv),
        "date": date.today().isoformat(),
        "cpu": processor(),
        "cpus": available_threads(None),
        "simd": _core.simd_level(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pcpq": metadata.version("pcpq"),
        **{package: metadata.version(package) for package in packages},
    }


def processor() -> str:
    """Return the name of the processor, as far as the system gives it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = (line.split(":")[1].strip() for line in lines if "model name" in line)
    return next(named, platform.processor())


def command(arguments: list[str]) -> str:
    """Return the command line with local folders replaced by FOLDER."""
    program = Path(arguments[0])
    words = ["pcpq"] if program.name == "pcpq" else ["python", os.path.relpath(program)]
    hide = False
    for argument in arguments[1:]:
        words.append("FOLDER" if hide else argument)
        hide = argument in FOLDERS
    return " ".join(words)
