"""Run the code blocks of pages and update their output: `python tools/pages.py docs/tutorial.md`.

The ```python blocks of a page share one namespace and one directory; commands in ```sh blocks that start with
`pcpq` run in the same directory. The output of a block is in the ```text block directly after it, or after the
second of two blocks side by side in a <div>. Words after the language are options:

    python needs=faiss   run only if faiss can be imported
    text about           numbers up to 1 may differ by 10%, larger ones by a third, because results depend on
                         how the machine rounds sums
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import os
import re
import shlex
import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pcpq

FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Block:
    """A code block and its expected output."""

    language: str
    needs: tuple[str, ...]
    code: str
    line: int  # line of the page at which the code starts
    shown: str | None = None
    about: bool = False
    place: tuple[int, int] = (0, 0)  # start and end of the expected output in the page

    @property
    def can_run(self) -> bool:
        """Whether all that the block needs is available."""
        return all(is_there(name) for name in self.needs)


def is_there(name: str) -> bool:
    """Return whether a name is a parameter of pcpq.build, or an installed module."""
    return name in inspect.signature(pcpq.build).parameters or importlib.util.find_spec(name) is not None


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page to run, in order."""
    found: list[Block] = []
    end = 0
    for fence in FENCE.finditer(page):
        language, words = fence[1], fence[2].split()
        if language in ("python", "sh"):
            needs = [n for word in words if word.startswith("needs=") for n in word[len("needs=") :].split(",")]
            found.append(Block(language, tuple(needs), fence[3], page.count("\n", 0, fence.start(3)) + 1))
        elif language == "text" and found and (between := page[end : fence.start()].strip()) in ("", "</div>"):
            for place in (-2, -1) if between else (-1,):  # blocks side by side print the same
                shown = {"shown": fence[3], "about": "about" in words, "place": fence.span(3)}
                found[place] = replace(found[place], **shown)
        end = fence.end()
    return found


def run_block(block: Block, page: Path, space: dict[str, Any]) -> str:
    """Run a block in the current directory and return its output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if block.language == "sh":
            run_commands([shlex.split(line, comments=True) for line in block.code.splitlines()])
        else:
            code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
            with warnings.catch_warnings():
                if block.needs:  # warnings of other libraries do not matter here
                    warnings.simplefilter("ignore")
                exec(code, space)
    return out.getvalue()


def run_commands(lines: list[list[str]]) -> None:
    """Run commands of pcpq up to the first unknown one; other programs (pip, make) are not run."""
    for words in lines:
        if words[:1] != ["pcpq"]:
            continue
        if not has_command(words[1]):
            return
        try:
            code = pcpq_command(words[1:])
        except SystemExit as stopped:
            code = stopped.code
        if code not in (0, None):
            raise AssertionError(f"{' '.join(words)}: exit code {code}")


def pcpq_command(arguments: list[str]) -> int | None:
    """Run the program `pcpq` with some arguments, and return its exit code."""
    from pcpq.cli import main

    return main(arguments)


def has_command(name: str) -> bool:
    """Return whether the command line has a command."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            pcpq_command([name, "--help"])
    except SystemExit as stopped:
        return stopped.code in (0, None)
    return False


def agrees(found: str, shown: str, about: bool) -> bool:
    """Return whether outputs are equal except for blanks, or, with `about`, have similar numbers."""
    found, shown = (" ".join(text.split()) for text in (found, shown))
    if not about:
        return found == shown
    if NUMBER.sub("0", found) != NUMBER.sub("0", shown):
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(shown), strict=True)
    numbers = (sorted(float(number.replace(",", "")) for number in pair) for pair in pairs)
    return all(more - less <= (more / 10 if more <= 1 else more / 3) for less, more in numbers)


def write_shown(path: Path) -> None:
    """Run a page and write the output of its blocks into it."""
    page, space, new = path.read_text(), {"__name__": path.stem}, {}
    for block in blocks_of(page):
        if not block.can_run:
            continue
        printed, where = run_block(block, path, space), f"{path.name}, line {block.line}"
        if block.shown is None and printed:
            print(f"{where}, prints output that the page does not show:\n{printed}", file=sys.stderr)
        elif block.shown is not None and not agrees(printed, new.get(block.place, block.shown), block.about):
            if block.place in new:
                print(
                    f"{where}, prints a different output than the block beside it:\n{printed}", file=sys.stderr
                )
            new[block.place] = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    for (start, end), shown in sorted(new.items(), reverse=True):
        page = page[:start] + shown + page[end:]
    path.write_text(page)


if __name__ == "__main__":
    for page_path in [Path(name).resolve() for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            write_shown(page_path)
            os.chdir("/")
