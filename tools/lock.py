"""Write constraints.txt, which contains the exact version of every package that CI installs.

    python tools/lock.py            write the newest versions that pyproject.toml allows
    python tools/lock.py --check    compare the packages of this Python with the file
    python tools/lock.py --file     print the name of the file, or nothing if it is not for this Python

pip chooses the versions; nothing is installed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from check_wheels import BUILD_TOOLS

PROJECT = Path(__file__).resolve().parent.parent
LOCK = PROJECT / "constraints.txt"
# The Python of CI. Other versions need other packages: for example, NumPy 2.4 does not support Python 3.10.
MEANT_FOR = "Python 3.11 on linux"
# CI runs no benchmarks of other libraries.
NOT_LOCKED = {"bench"}
# Packages that the Makefile installs, and build tools for systems that lack them.
TOOLS = (*BUILD_TOOLS, "pip", "setuptools", "atheris", "cmake", "ninja")
HEADER = """\
# The versions that CI tests with, on Python 3.11 and Linux only. `make lock` writes this file, and the Makefile
# gives it to pip. Users do not need it: pyproject.toml says which versions pcpq works with.
"""


def main() -> None:
    """Write the file, check it or print its name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true")
    action.add_argument("--file", action="store_true")
    options = parser.parse_args()
    this = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {sys.platform}"
    if options.file:
        print(LOCK.name if this == MEANT_FOR else "")
    elif this != MEANT_FOR:
        sys.exit(f"{LOCK.name} is for {MEANT_FOR}, this is {this}")
    elif options.check:
        if found := differences(installed(), locked(LOCK.read_text())):
            sys.exit("\n".join([f"the packages installed are not those of {LOCK.name}:", *found]))
    else:
        LOCK.write_text(HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(chosen().items())))


def normal(name: str) -> str:
    """Return the normalized name of a package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, str]:
    """Return the versions in a lock file, by name."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: version for name, _, version in (line.partition("==") for line in lines)}


def wanted() -> list[str]:
    """Return all requirements of CI, with the bounds of pyproject.toml."""
    import tomllib  # not in Python 3.10, where only --file is called

    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    extras = settings["project"]["optional-dependencies"]
    return [
        *settings["build-system"]["requires"],
        *settings["project"]["dependencies"],
        *(package for extra, packages in extras.items() if extra not in NOT_LOCKED for package in packages),
        *TOOLS,
    ]


def chosen() -> dict[str, str]:
    """Return the versions that pip chooses for all requirements together, by name."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_CONSTRAINT")}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), *wanted()], env=kept, check=True)
        packages = [package["metadata"] for package in json.loads(report.read_text())["install"]]
    # A local version, such as torch's "+cpu", may not be available on other machines.
    return {normal(package["name"]): package["version"].partition("+")[0] for package in packages}


def installed() -> dict[str, str]:
    """Return the versions of the packages of this Python, by name."""
    packages = importlib.metadata.distributions()
    return {normal(package.metadata["Name"]): package.version.partition("+")[0] for package in packages}


def differences(here: Mapping[str, str], lock: Mapping[str, str]) -> list[str]:
    """Return a line for each installed package whose version is not the locked one."""
    return [
        f"{name} is {version}, locked: {lock.get(name, 'no version')}"
        for name, version in sorted(here.items())
        if name != "pcpq" and lock.get(name) != version
    ]


if __name__ == "__main__":
    main()
