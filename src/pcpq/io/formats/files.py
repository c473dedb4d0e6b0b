"""Regular files: their size, bytes and lines, and errors of parsers."""

from __future__ import annotations

import contextlib
import errno
import gzip
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pcpq.errors import FormatError
from pcpq.io.arrays import Bytes

# Longest line of a text file, in bytes; a longer line is rejected before it is read completely.
MOST_LINE = 1 << 26
GZIP = b"\x1f\x8b"
# Largest compression ratio of gzip.
GZIP_GAIN = 1032


@contextlib.contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Convert errors of a parser to a FormatError that names the file; keep errors of the operating system."""
    try:
        yield
    except (FormatError, ImportError):
        raise
    except Exception as error:
        # Parsers raise OSError too, but without an errno. EINVAL comes from an invalid offset in the file.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        message = str(error) or type(error).__name__
        raise FormatError(f"{path}: cannot be read: {message}") from error


def plain_size(path: Path) -> int:
    """Return the size of a regular file in bytes.

    Other files are rejected before they are opened, because opening a pipe can block.
    """
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{path} is a directory; expected a file of vectors")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a regular file, so it cannot be read more than once")
    if status.st_size == 0:
        raise FormatError(f"{path}: is empty, it has 0 bytes")
    return status.st_size


def mapped(path: Path) -> Bytes:
    """Return the bytes of a file as a memory map, (size,) uint8."""
    plain_size(path)
    return np.memmap(path, np.uint8, "r")


def is_gzip(path: Path) -> bool:
    """Return whether a file starts with the magic number of gzip, which no text file does."""
    with path.open("rb") as file:
        return file.read(2) == GZIP


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers from 1."""
    with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
        number = 0
        while line := file.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise FormatError(f"{path}, line {number}: has more than {MOST_LINE} bytes")
            if not line.isspace():
                yield number, line
