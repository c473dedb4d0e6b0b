"""What a measured number depends on besides the code."""

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

# Options whose value is a place on this machine, and nobody else's business.
FOLDERS = ("--data", "--out")


def environment(*packages: str) -> dict[str, Any]:
    """The command, the processor, versions (of other packages, too)."""
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
    """Its name, as far as it is known."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = (line.split(":")[1].strip() for line in lines if "model name" in line)
    return next(named, platform.processor())


def command(arguments: list[str]) -> str:
    """What was run, without the folders it happened to name."""
    program = Path(arguments[0])
    words = ["pcpq"] if program.name == "pcpq" else ["python", os.path.relpath(program)]
    hide = False
    for argument in arguments[1:]:
        words.append("FOLDER" if hide else argument)
        hide = argument in FOLDERS
    return " ".join(words)
