"""Files that are there as a whole or not at all, and locks that end with the process that holds them."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import secrets
import socket
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from pcpq.errors import FormatError, LockedError
from pcpq.packing import Bytes
from pcpq.storage.system import (
    NO_LINK,
    NO_WAITING,
    PLAIN,
    lock_alone,
    mark_as_read,
    patiently,
    read_start,
    unlock,
    write_start,
)

LOCK = "lock"
# What a manifest or the header of a file may take: read before anything is known of it.
MOST_TEXT = 1 << 26


def write_new(path: Path, chunks: Iterable[Any]) -> None:
    """Write a file that is not there yet and wait until the disk has it; on failure nothing is left of it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o666)
    try:
        try:
            for chunk in chunks:
                left = memoryview(chunk)
                while left.nbytes:
                    left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        remove_if_there(path)
        raise


def replace_file(path: Path, new: Path) -> None:
    """Put a file that is on disk in another's place."""
    patiently(lambda: os.replace(new, path))


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes its name when all is well; if not, whatever had the name still has it.

    Where a link leads, there it is written; devices and pipes are written to as they are.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory")
        with path.open("wb") as file:
            yield file
        return
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        file = new.open("xb")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path.parent} is not there") from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        replace_file(path, new)
    except BaseException:
        remove_if_there(new)
        raise
    sync_directory(path.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in its place as a whole or not at all, whatever was there before."""
    with replaced(path) as file:
        file.write(content)


def sync_directory(path: Path) -> None:
    """Wait until the disk knows which files are in a directory; Windows has no way to ask for that."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | PLAIN)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_if_there(path: Path) -> None:
    """Remove a file that nobody needs; what cannot be removed is left to the next one who tries."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def open_for_reading(path: Path) -> int:
    """A descriptor of a plain file; links are not followed, they may lead anywhere."""
    if not NO_LINK and path.is_symlink():
        raise FormatError(f"{path}: is a symbolic link")
    try:
        descriptor = os.open(path, os.O_RDONLY | PLAIN | NO_LINK | NO_WAITING)
    except OSError as error:
        if path.is_symlink():
            raise FormatError(f"{path}: is a symbolic link") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FormatError(f"{path}: is not a plain file")
    return descriptor


def read_text(path: Path) -> bytes:
    """All of a small file."""
    descriptor = patiently(lambda: open_for_reading(path))
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > MOST_TEXT:
            raise FormatError(f"{path}: has {size} bytes; at most {MOST_TEXT} are expected")
        return file.read()


def map_file(path: Path, size: int) -> Bytes:
    """(size,) the bytes of a file, read when they are wanted.

    As long as the array lives, the file is marked as being read, and `remove_unread` leaves it alone.
    """
    descriptor = open_for_reading(path)
    try:
        there = os.fstat(descriptor).st_size
        if there != size or size == 0:
            raise FormatError(f"{path}: has {there} bytes, the manifest says {size}")
        mark_as_read(descriptor)
        # The map has a descriptor of its own for the same open file, and with it the mark.
        return np.frombuffer(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ), np.uint8)
    finally:
        os.close(descriptor)


def remove_unread(path: Path) -> None:
    """Remove a file unless somebody reads it."""
    with contextlib.suppress(OSError, FormatError):
        if sys.platform == "win32":  # where nothing that is open can be removed, by oneself neither
            os.unlink(path)
            return
        descriptor = open_for_reading(path)
        try:
            lock_alone(descriptor)
            os.unlink(path)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """What is missing in a file, or of the wrong kind, is a FormatError that names the file."""
    try:
        yield
    except FormatError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: cannot be read: {error!r}") from error


class WriterLock:
    """At most one in a directory, in this process or any other; gone when its process is."""

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | PLAIN | NO_LINK, 0o666)
        try:
            try:
                lock_alone(descriptor)
            except BlockingIOError as error:
                raise LockedError(f"{directory} is being written by {holder(descriptor)}") from error
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            text = json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": since})
            os.ftruncate(descriptor, 0)
            write_start(descriptor, text.encode())
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor: int | None = descriptor
        self.process = os.getpid()

    @property
    def held(self) -> bool:
        """Whether this process may write; one that was forked from it may not."""
        return self._descriptor is not None and self.process == os.getpid()

    def __del__(self) -> None:
        if hasattr(self, "process"):
            self.release()

    def release(self) -> None:
        """Let others write, even if a forked process still has the file open."""
        held, descriptor, self._descriptor = self.held, self._descriptor, None
        if descriptor is not None:
            if held:
                unlock(descriptor)
            os.close(descriptor)


def holder(descriptor: int) -> str:
    """Who wrote a name into a lock."""
    try:
        found = json.loads(read_start(descriptor, 4096))
        return f"process {found['process']} on {found['host']} since {found['since']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "another process"
