"""Plain files: their size, their bytes, their lines; and new ones that are there as a whole or not at all."""

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

# No vector takes more in a line; what is longer is not read to its end.
MOST_LINE = 1 << 26
GZIP = b"\x1f\x8b"
# gzip makes no more of a byte than so many.
GZIP_GAIN = 1032


@contextlib.contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Whatever a parser says of a file is a FormatError that names it; what the system says stays."""
    try:
        yield
    except (FormatError, ImportError):
        raise
    except Exception as error:
        # Parsers raise OSError too, but only the system numbers its errors. It finds a place invalid that
        # the file named.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        said = str(error) or type(error).__name__
        raise FormatError(f"{path}: cannot be read: {said}") from error


def plain_size(path: Path) -> int:
    """Bytes of a plain file; others are refused before they are opened, which may take forever."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(f"{path} is a directory; expected a file of vectors")
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path} is not a plain file, so it cannot be read twice")
    if found.st_size == 0:
        raise FormatError(f"{path}: is empty, it has 0 bytes")
    return found.st_size


def mapped(path: Path) -> Bytes:
    """(size,) the bytes of a file, read when they are wanted."""
    plain_size(path)
    return np.memmap(path, np.uint8, "r")


def is_gzip(path: Path) -> bool:
    """By its first bytes, with which no text begins."""
    with path.open("rb") as file:
        return file.read(2) == GZIP


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers from 1."""
    with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
        number = 0
        while line := file.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise FormatError(f"{path}, line {number}: has more than {MOST_LINE} bytes")
            if not line.isspace():
                yield number, line
