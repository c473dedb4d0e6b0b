"""Files that are there as a whole or not at all, and locks that end with the process that holds them."""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np

from pcpq.errors import FormatError, LockedError
from pcpq.io.arrays import Bytes
from pcpq.util.system import (
    NO_LINK,
    NO_LOCKS,
    NO_WAITING,
    PLAIN,
    lock_alone,
    mark_as_read,
    patiently,
    read_start,
    unlock,
    write_start,
)

logger = logging.getLogger(__name__)
LOCK = "lock"
# Seconds between two looks at the sizes of mapped files.
SIZES_EVERY = 0.05
# What a manifest or the header of a file may take: read before anything is known of it.
MOST_TEXT = 1 << 26


def open_plain(path: Path, access: int = os.O_RDONLY) -> int:
    """A descriptor of a plain file; links are not followed, they may lead anywhere."""
    if not NO_LINK and path.is_symlink():
        raise FormatError(f"{path}: is a symbolic link")
    try:
        descriptor = os.open(path, access | PLAIN | NO_LINK | NO_WAITING)
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
    file = OpenFile(patiently(lambda: open_plain(path)))
    try:
        return file.read_text(path)
    finally:
        file.close()


class OpenFile:
    """A descriptor that is closed once, at the latest with its last owner."""

    _close = staticmethod(os.close)  # there even when the interpreter shuts down
    descriptor = -1

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read_text(self, path: Path) -> bytes:
        """All of a small file, whose name is `path`."""
        size = os.fstat(self.descriptor).st_size
        if size > MOST_TEXT:
            raise FormatError(f"{path}: has {size} bytes; at most {MOST_TEXT} are expected")
        with os.fdopen(self.descriptor, "rb", closefd=False) as file:
            return file.read()

    def identity(self) -> tuple[int, int, int, int]:
        """Device, inode, size and time of the last change."""
        there = os.fstat(self.descriptor)
        return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns

    def close(self) -> None:
        """Close it now."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            self._close(descriptor)

    def __del__(self) -> None:
        self.close()


class MappedFile(mmap.mmap):
    """The bytes of a file, read when they are wanted; marked as being read as long as this object lives."""

    file: OpenFile

    @classmethod
    def of(cls, file: OpenFile, size: int) -> MappedFile:
        """Map an open file."""
        # Without a second descriptor where Python can: that of `file` keeps the mark.
        untracked: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        mapped = cls(file.descriptor, size, access=mmap.ACCESS_READ, **untracked)
        mapped.file = file
        return mapped

    def refuse_changed_size(self, path: Path) -> None:
        """A FormatError if the file was cut or grew: to read what is gone would end the process (SIGBUS)."""
        size = os.fstat(self.file.descriptor).st_size
        if size != len(self):
            raise FormatError(f"{path}: has {size} bytes, it had {len(self)} when it was opened")

    def refuse_replaced(self, path: Path) -> None:
        """A FormatError if another file has its name now."""
        ours = os.fstat(self.file.descriptor)
        with contextlib.suppress(FileNotFoundError):  # of an older generation, which is still being read
            there = os.lstat(path)
            if not os.path.samestat(there, ours):
                raise FormatError(f"{path}: was replaced after it was opened; open the index again")


# By device and inode. A file is mapped once in a process: where locks are those of a process (NFS), to close a
# second descriptor of a file would take the mark away from the first.
mapped_files: WeakValueDictionary[tuple[int, int], MappedFile] = WeakValueDictionary()


def map_file(path: Path, size: int) -> Bytes:
    """(size,) the bytes of a file, read when they are wanted.

    As long as the array lives, the file is marked as being read, and `remove_unread` leaves it alone.
    """
    mapped = already_mapped(path)
    if mapped is None or not len(mapped) == size == os.fstat(mapped.file.descriptor).st_size:
        mapped = _map_anew(path, size)
    return np.frombuffer(mapped, np.uint8)


def already_mapped(path: Path) -> MappedFile | None:
    """The map that this process has of a file, if it has one."""
    there = os.lstat(path)
    return mapped_files.get((there.st_dev, there.st_ino)) if stat.S_ISREG(there.st_mode) else None


class Maps:
    """The files that one index has mapped, by the names that it knows them by: links share a map."""

    def __init__(self) -> None:
        self._paths: WeakKeyDictionary[MappedFile, Path] = WeakKeyDictionary()
        self._looked_at = 0.0

    def add(self, paths: Iterable[Path]) -> None:
        """Files that are mapped now."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                mapped = already_mapped(path)
                if mapped is not None:
                    self._paths[mapped] = path

    def refuse_changed_sizes(self) -> None:
        """A FormatError if a file was cut or grew: cheap enough to be asked before every search."""
        now = time.monotonic()
        if now - self._looked_at > SIZES_EVERY:
            for mapped, path in list(self._paths.items()):
                mapped.refuse_changed_size(path)
            self._looked_at = now

    def refuse_replaced(self) -> None:
        """A FormatError if another file has the name of one of these."""
        for mapped, path in list(self._paths.items()):
            mapped.refuse_replaced(path)


def _map_anew(path: Path, size: int) -> MappedFile:
    file = OpenFile(open_plain(path))
    there = os.fstat(file.descriptor)
    if there.st_size != size or size == 0:
        raise FormatError(f"{path}: has {there.st_size} bytes, the manifest says {size}")
    problem = mark_as_read(file.descriptor)
    if problem is not None:
        # The map stays readable even if the file is removed, except on NFS.
        logger.warning("%s is read without a shared lock: %s", path, problem)
    mapped = mapped_files[there.st_dev, there.st_ino] = MappedFile.of(file, size)
    return mapped


def remove_unread(path: Path) -> None:
    """Remove a file unless a process reads it."""
    with contextlib.suppress(OSError, FormatError):
        if sys.platform == "win32":  # where no file that is open can be removed
            os.unlink(path)
            return
        try:
            descriptor = open_plain(path, os.O_RDWR)  # NFS wants that for a lock that is not shared
        except PermissionError:
            descriptor = open_plain(path)
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
        self.path, self._process = directory / LOCK, os.getpid()
        self._descriptor: int | None = None
        held_locks.add(self)
        with opening_lock:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | PLAIN | NO_LINK | NO_WAITING, 0o666)
        try:
            self._take(self._descriptor)
        except BaseException:
            self._close()
            raise

    def _take(self, descriptor: int) -> None:
        try:
            lock_alone(descriptor)
        except BlockingIOError as error:
            raise LockedError(f"{self.path.parent} is being written by {holder(descriptor)}") from error
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            reason = f"{error.strerror}: to write to an index, its file system must have file locks"
            raise OSError(error.errno, reason, str(self.path)) from error
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        text = json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": since})
        os.ftruncate(descriptor, 0)
        write_start(descriptor, text.encode())

    @property
    def held(self) -> bool:
        """Whether this process may write; one that was forked from it may not."""
        return self._descriptor is not None and self._process == os.getpid()

    def refuse_if_lost(self) -> None:
        """A LockedError if the lock file was removed or replaced: another process may hold the new one."""
        if self._descriptor is None or sys.platform == "win32":  # where an open file cannot be removed
            return
        ours = os.fstat(self._descriptor)
        try:
            there = os.lstat(self.path)
        except FileNotFoundError:
            there = None
        if there is None or not os.path.samestat(there, ours):
            raise LockedError(f"{self.path} was removed or replaced: another process may write; open again")

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.release()

    def release(self) -> None:
        """Let others write."""
        if self._descriptor is not None and self.held:
            # Descriptors that a forked process still has would keep the lock after ours is closed.
            with contextlib.suppress(OSError):
                unlock(self._descriptor)
        self._close()

    def _close(self) -> None:
        """Without unlocking: a forked process has the same lock as its parent, who may still need it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _leave_locks_to_parent() -> None:
    for lock in list(held_locks):
        lock._close()
    opening_lock.release()


# A forked process must not keep the lock of a parent that died. A fork waits for a lock that is being opened,
# because its descriptor is not known yet.
held_locks: WeakSet[WriterLock] = WeakSet()
opening_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=opening_lock.acquire,
        after_in_parent=opening_lock.release,
        after_in_child=_leave_locks_to_parent,
    )


def holder(descriptor: int) -> str:
    """The process that a lock file names, as far as it can be told."""
    try:
        found = json.loads(read_start(descriptor, 4096))
        process, host = int(found["process"]), str(found["host"])
        name = f"process {process} on {host} since {found['since']}"
        if host == socket.gethostname() and not is_running(process):
            return f"a process that has the lock from {name}, which has ended"
        return name
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return "another process"


def is_running(process: int) -> bool:
    """Whether there is a process of this number on this machine; where that cannot be asked, True."""
    if sys.platform == "win32" or process <= 0:  # os.kill would end it, or ask a group of processes
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
