"""Exit codes, and exceptions as one line."""

from __future__ import annotations

from typing import Any

FINE, FOUND_WRONG, FAILED, STOPPED = 0, 1, 2, 130
EXIT_CODES = {
    FINE: "Success.",
    FOUND_WRONG: "`verify` or `doctor` found an error.",
    FAILED: "Wrong usage, or the command failed. One line on standard error gives the reason.",
    STOPPED: "Stopped by Ctrl-C. No file is left incomplete.",
}
# Optional packages, and the extra that installs each.
EXTRAS = {
    "pyarrow": "attributes",
    "duckdb": "attributes",
    "h5py": "paper",
    "matplotlib": "paper",
    "rich": "cli",
    "shtab": "cli",
    "starlette": "explore",
    "uvicorn": "explore",
}
# Errors of wrong input, files and missing packages. Any other exception is a bug, and prints a traceback.
EXPECTED = (ValueError, OSError, LookupError, ImportError, MemoryError, NotImplementedError)


class Wrong(Exception):
    """An error that `verify` or `doctor` was run to find."""


def in_one_line(error: BaseException) -> str:
    """Return the message of an exception as one line."""
    return " ".join(message_of(error).split())


def message_of(error: BaseException) -> str:
    """Return the message of an exception, without Python's own details."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.split(".")[0]
        return f"{package} is missing: {how_to_get(package)}" if package in EXTRAS else str(error)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{name_of(error.filename)}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    if isinstance(error, LookupError) and error.args:  # str() of a KeyError adds quotes
        return str(error.args[0])
    return str(error) or type(error).__name__


def name_of(file: Any) -> str:
    """Return the name of a file as text."""
    return file.decode(errors="replace") if isinstance(file, bytes) else str(file)


def how_to_get(package: str) -> str:
    """Return the command that installs an optional package."""
    return f'pip install "pcpq[{EXTRAS[package]}]"'
