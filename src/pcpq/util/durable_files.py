"""Files that are written as a whole or not at all, and that a power loss does not take away."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from pcpq.util.system import (
    NO_DIRECTORY_SYNC,
    PLAIN,
    patiently,
)


def write_new(path: Path, chunks: Iterable[Any]) -> None:
    """Write a file that is not there yet and wait until the disk has it; on failure nothing is left of it."""
    process = os.getpid()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o666)
    try:
        being_written.add(descriptor)
        try:
            for chunk in chunks:
                left = memoryview(chunk)
                while left.nbytes:
                    if os.getpid() != process:
                        raise OSError(f"{path} is being written by the process that this one was forked from")
                    left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            if descriptor in being_written:  # not in a forked process
                being_written.discard(descriptor)
                os.close(descriptor)
    except BaseException:
        if os.getpid() == process:
            remove_if_there(path)
        raise


# Descriptors. A process that a signal handler forks closes them: its parent writes, not it.
being_written: set[int] = set()


def _leave_writing_to_parent() -> None:
    while being_written:
        os.close(being_written.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_writing_to_parent)


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


@contextlib.contextmanager
def directory_sync(path: Path) -> Iterator[Callable[[], None]]:
    """A function that waits until the disk knows which files are in a directory.

    The directory is opened now, so that a lack of descriptors shows before anything depends on the function.
    Windows, and some file systems, have no such thing: there it does nothing.
    """
    if sys.platform == "win32":
        yield lambda: None
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | PLAIN)

    def sync() -> None:
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in NO_DIRECTORY_SYNC:
                raise

    try:
        yield sync
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Wait until the disk knows which files are in a directory."""
    with directory_sync(path) as sync:
        sync()


def make_directory(path: Path) -> bool:
    """Make a directory, and those above it that are missing, so that a power loss does not take them away.

    Returns whether it was not there before.
    """
    path = path.resolve()
    missing = [one for one in (path, *path.parents) if not one.is_dir()]
    made = False
    for one in reversed(missing):
        try:
            os.mkdir(one)
            made = one == path
        except FileExistsError:
            if not one.is_dir():
                raise
    try:
        # The directory itself may have been made by a process that was killed before it could sync.
        for one in missing or [path]:
            with contextlib.suppress(PermissionError):  # not ours to read, so another's to care for
                sync_directory(one.parent)
    except BaseException:
        if made:
            remove_empty_directory(path)
        raise
    return made


def remove_empty_directory(path: Path) -> None:
    """Remove a directory unless there is something in it."""
    with contextlib.suppress(OSError):
        os.rmdir(path)


def remove_if_there(path: Path) -> None:
    """Remove a file that is not needed; if that fails, the next writer tries again."""
    with contextlib.suppress(OSError):
        os.unlink(path)
