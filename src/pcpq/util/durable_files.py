"""Atomic and durable writes: a file is written completely or not at all, and survives a power loss."""

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
    """Write a file that must not exist yet and sync it to disk; remove it if writing fails."""
    process = os.getpid()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o666)
    try:
        being_written.add(descriptor)
        try:
            for chunk in chunks:
                remaining = memoryview(chunk)
                while remaining.nbytes:
                    if os.getpid() != process:
                        raise OSError(f"{path} is being written by the process that this one was forked from")
                    remaining = remaining[os.write(descriptor, remaining) :]
            os.fsync(descriptor)
        finally:
            if descriptor in being_written:  # empty in a forked process
                being_written.discard(descriptor)
                os.close(descriptor)
    except BaseException:
        if os.getpid() == process:
            remove_if_there(path)
        raise


# Descriptors of files that are being written. A process forked by a signal handler closes its copies,
# because only the parent continues to write.
being_written: set[int] = set()


def _close_descriptors_in_child() -> None:
    while being_written:
        os.close(being_written.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_descriptors_in_child)


def replace_file(path: Path, new: Path) -> None:
    """Replace the file at `path` by the file `new`, which is already on disk."""
    patiently(lambda: os.replace(new, path))


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` atomically when the block ends without an error.

    After an error the previous file is unchanged. Symbolic links are followed; devices and pipes are written to
    directly.
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
        raise FileNotFoundError(f"{path.parent} does not exist") from None
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
    """Write a file atomically, replacing an existing one."""
    with replaced(path) as file:
        file.write(content)


@contextlib.contextmanager
def directory_sync(path: Path) -> Iterator[Callable[[], None]]:
    """Yield a function that syncs the entries of a directory to disk.

    The directory is opened at once, so that a lack of file descriptors raises an error before any file depends
    on the function. On Windows and on file systems that cannot sync directories, the function does nothing.
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
    """Sync the entries of a directory to disk."""
    with directory_sync(path) as sync:
        sync()


def make_directory(path: Path) -> bool:
    """Create a directory and its missing parents durably.

    Returns whether this call created the directory.
    """
    path = path.resolve()
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    created = False
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
            created = folder == path
        except FileExistsError:
            if not folder.is_dir():
                raise
    try:
        # Another process may have created the directory and been killed before it synced the parent.
        for folder in missing or [path]:
            with contextlib.suppress(PermissionError):  # a parent that belongs to another user
                sync_directory(folder.parent)
    except BaseException:
        if created:
            remove_empty_directory(path)
        raise
    return created


def remove_empty_directory(path: Path) -> None:
    """Remove a directory if it is empty."""
    with contextlib.suppress(OSError):
        os.rmdir(path)


def remove_if_there(path: Path) -> None:
    """Remove a file that is no longer needed; errors are ignored, because the next writer tries again."""
    with contextlib.suppress(OSError):
        os.unlink(path)
