"""List committed results whose code has changed since they were measured: python tools/results.py [--all]

The environment of a result in benchmarks/results names the commit it was measured on. Its numbers depend on the
script that wrote it, the modules of benchmarks/ that the script imports, and the code of the package. The list
counts the commits since then that changed any of these.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = Path("benchmarks") / "results"
# What every search and every build runs.
CORE = ("cpp", "CMakeLists.txt", "src/pcpq")
# Parts of the package that numbers depend on only where a result says so.
APART = ("src/pcpq/cli", "src/pcpq/integrations", "src/pcpq/experiments")
# What programs depend on besides the core and, for scripts of benchmarks/, themselves.
PROGRAMS = {
    "pcpq paper": ("src/pcpq/experiments",),
    "make torture": ("tests",),
    "make coverage": ("tests", *APART),
    "python benchmarks/ray_cluster.py": ("src/pcpq/integrations/ray",),
}


class Run(NamedTuple):
    """A program that wrote a result, in two words such as "make torture", and its commit.

    Results from before commits were recorded name the one that added them to the repository instead.
    """

    program: str
    commit: str | None
    committed_in: str | None


def runs(result: Any) -> Iterator[Run]:
    """Yield the runs in a result: one for each environment in it, at any depth."""
    if isinstance(result, list):
        for inner in result:
            yield from runs(inner)
    elif isinstance(result, dict):
        for name, inner in result.items():
            if name.endswith("environment"):
                program = " ".join(inner["command"].split()[:2])
                yield Run(program, inner.get("commit"), inner.get("committed_in"))
            else:
                yield from runs(inner)


def paths(program: str, project: Path = PROJECT) -> list[str]:
    """Return the files and folders that the numbers of a program depend on, as pathspecs of git."""
    needed = [*CORE, *PROGRAMS.get(program, ())]
    if program.startswith("python "):
        needed += modules(program.removeprefix("python "), project)
    elif program not in PROGRAMS:
        raise ValueError(f"'{program}' is not known: add what its numbers depend on to tools/results.py")
    apart = [folder for folder in APART if not any(path.startswith(folder) for path in needed)]
    return [*needed, *(f":(exclude){folder}" for folder in apart)]


def modules(script: str, project: Path) -> list[str]:
    """Return a script of benchmarks/ and the modules beside it that it imports, directly or not."""
    found, waiting = [], [script]
    while waiting:
        path = waiting.pop()
        if path in found or not (project / path).exists():
            continue
        found.append(path)
        for node in ast.walk(ast.parse((project / path).read_text())):
            if isinstance(node, ast.Import):
                waiting += [f"benchmarks/{alias.name}.py" for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                waiting.append(f"benchmarks/{node.module}.py")
    return found


def git(project: Path, *arguments: str) -> str:
    """Return the output of git; CalledProcessError if it fails."""
    command = ["git", "-C", str(project), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def state(path: Path, project: Path = PROJECT) -> Iterator[tuple[str, int | None]]:
    """Yield a line for each run of a result, and how many commits since then touched its code, if known."""
    for run in dict.fromkeys(runs(json.loads((project / path).read_text()))):
        if run.commit:
            commit, measured = run.commit.rstrip("+"), f"measured at {run.commit}"
        else:
            commit = run.committed_in or git(project, "log", "-1", "--format=%h", "--", str(path))
            measured = f"measured before {commit}"
        try:
            since = git(project, "rev-list", "--count", f"{commit}..HEAD", "--", *paths(run.program, project))
        except subprocess.CalledProcessError:
            yield f"{path.name}: {measured}, which this repository does not have", None
        else:
            yield f"{path.name}: {measured}; {since} commits since touched its code", int(since)


def main() -> None:
    """Print the results whose code has changed, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="also those whose code has not changed")
    options = parser.parse_args()
    said = [
        line for path in sorted((PROJECT / RESULTS).glob("*.json")) for line in state(path.relative_to(PROJECT))
    ]
    for line, commits in said:
        if options.all or commits != 0:
            print(line)
    print(f"{sum(commits == 0 for _, commits in said)} of {len(said)} runs measured the code as it is")


if __name__ == "__main__":
    main()
