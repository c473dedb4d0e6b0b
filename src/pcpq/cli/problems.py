"""Exceptions as one line, and how a command ends."""

from __future__ import annotations

from typing import Any

FINE, FOUND_WRONG, FAILED, STOPPED = 0, 1, 2, 130
EXIT_CODES = {
    FINE: "Success.",
    FOUND_WRONG: "`verify` or `doctor` found an error.",
    FAILED: "Wrong usage, or the command failed. One line on standard error gives the reason.",
    STOPPED: "Stopped by Ctrl-C. No file is left incomplete.",
}
# Packages that pcpq does without, and the extra that brings each.
EXTRAS = {
    "pyarrow": "attributes",
    "duckdb": "attributes",
    "h5py": "paper",
    "matplotlib": "paper",
    "rich": "cli",
    "shtab": "cli",
}
# What a library says of bad input, of files and of what is not installed; anything else is a mistake of ours.
EXPECTED = (ValueError, OSError, LookupError, ImportError, MemoryError, NotImplementedError)


class Wrong(Exception):
    """A command looked for something wrong, and found it."""


def in_one_line(error: BaseException) -> str:
    """What went wrong, without the words of Python."""
    return " ".join(said(error).split())


def said(error: BaseException) -> str:
    """In as many lines as it comes."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.split(".")[0]
        return f"{package} is missing: {how_to_get(package)}" if package in EXTRAS else str(error)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{name_of(error.filename)}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    if isinstance(error, LookupError) and error.args:  # str() of one has quotes around it
        return str(error.args[0])
    return str(error) or type(error).__name__


def name_of(file: Any) -> str:
    """A file as people know it."""
    return file.decode(errors="replace") if isinstance(file, bytes) else str(file)


def how_to_get(package: str) -> str:
    """The command that installs it."""
    return f'pip install "pcpq[{EXTRAS[package]}]"'
