"""Access to the files of an index: plain files, memory maps with a shared lock, and the writer's lock."""

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
# Seconds between checks of the sizes of mapped files.
SIZES_EVERY = 0.05
# Largest size of a manifest or a file header in bytes: they are read before anything is checked.
MOST_TEXT = 1 << 26


def open_plain(path: Path, access: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor. Symbolic links are refused: they can lead anywhere."""
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
    """Return the content of a small file."""
    file = OpenFile(patiently(lambda: open_plain(path)))
    try:
        return file.read_text(path)
    finally:
        file.close()


class OpenFile:
    """A file descriptor that is closed once, at the latest when the object is deleted."""

    _close = staticmethod(os.close)  # still available when the interpreter shuts down
    descriptor = -1

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read_text(self, path: Path) -> bytes:
        """Return the content of a small file; `path` is its name for messages."""
        size = os.fstat(self.descriptor).st_size
        if size > MOST_TEXT:
            raise FormatError(f"{path}: has {size} bytes; at most {MOST_TEXT} are expected")
        with os.fdopen(self.descriptor, "rb", closefd=False) as file:
            return file.read()

    def identity(self) -> tuple[int, int, int, int]:
        """Return the device, inode, size and modification time of the file."""
        status = os.fstat(self.descriptor)
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def close(self) -> None:
        """Close the descriptor."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            self._close(descriptor)

    def __del__(self) -> None:
        self.close()


class MappedFile(mmap.mmap):
    """A memory map of a file, which holds a shared lock on the file as long as the object exists."""

    file: OpenFile

    @classmethod
    def of(cls, file: OpenFile, size: int) -> MappedFile:
        """Map an open file."""
        # Python 3.13 can map without a second descriptor; the descriptor of `file` holds the lock.
        untracked: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        mapped = cls(file.descriptor, size, access=mmap.ACCESS_READ, **untracked)
        mapped.file = file
        return mapped

    def refuse_changed_size(self, path: Path) -> None:
        """Raise a FormatError if the size changed: reading a truncated map would end the process (SIGBUS)."""
        size = os.fstat(self.file.descriptor).st_size
        if size != len(self):
            raise FormatError(f"{path}: has {size} bytes; it had {len(self)} when it was opened")

    def refuse_replaced(self, path: Path) -> None:
        """Raise a FormatError if the path now names another file."""
        mapped = os.fstat(self.file.descriptor)
        with contextlib.suppress(FileNotFoundError):  # removed with an older generation
            if not os.path.samestat(os.lstat(path), mapped):
                raise FormatError(f"{path}: was replaced after it was opened; open the index again")


# By device and inode. A process maps a file once: on NFS, locks belong to the process, and closing a second
# descriptor of the file would release the lock of the first.
mapped_files: WeakValueDictionary[tuple[int, int], MappedFile] = WeakValueDictionary()


def map_file(path: Path, size: int) -> Bytes:
    """Map a file of `size` bytes, and return its bytes as an array.

    As long as the array exists, the file is marked as being read, and `remove_unread` does not remove it.
    """
    mapped = already_mapped(path)
    if mapped is None or not len(mapped) == size == os.fstat(mapped.file.descriptor).st_size:
        mapped = _map_anew(path, size)
    return np.frombuffer(mapped, np.uint8)


def already_mapped(path: Path) -> MappedFile | None:
    """Return the map that this process has of a file, or None."""
    status = os.lstat(path)
    return mapped_files.get((status.st_dev, status.st_ino)) if stat.S_ISREG(status.st_mode) else None


class Maps:
    """The mapped files of one index and their paths. Hard links of several indexes share one map."""

    def __init__(self) -> None:
        self._paths: WeakKeyDictionary[MappedFile, Path] = WeakKeyDictionary()
        self._checked_at = 0.0

    def add(self, paths: Iterable[Path]) -> None:
        """Add those of the files that are mapped."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                mapped = already_mapped(path)
                if mapped is not None:
                    self._paths[mapped] = path

    def refuse_changed_sizes(self) -> None:
        """Raise a FormatError if the size of a file changed. Cheap enough to call before every search."""
        now = time.monotonic()
        if now - self._checked_at > SIZES_EVERY:
            for mapped, path in list(self._paths.items()):
                mapped.refuse_changed_size(path)
            self._checked_at = now

    def refuse_replaced(self) -> None:
        """Raise a FormatError if a file was replaced after it was mapped."""
        for mapped, path in list(self._paths.items()):
            mapped.refuse_replaced(path)


def _map_anew(path: Path, size: int) -> MappedFile:
    file = OpenFile(open_plain(path))
    status = os.fstat(file.descriptor)
    if status.st_size != size or size == 0:
        raise FormatError(f"{path}: has {status.st_size} bytes, the manifest says {size}")
    problem = mark_as_read(file.descriptor)
    if problem is not None:
        # The map stays readable even if the file is removed, except on NFS.
        logger.warning("%s is read without a shared lock: %s", path, problem)
    mapped = mapped_files[status.st_dev, status.st_ino] = MappedFile.of(file, size)
    return mapped


def remove_unread(path: Path) -> None:
    """Remove a file unless a process reads it."""
    with contextlib.suppress(OSError, FormatError):
        if sys.platform == "win32":  # an open file cannot be removed
            os.unlink(path)
            return
        try:
            descriptor = open_plain(path, os.O_RDWR)  # NFS needs write access for an exclusive lock
        except PermissionError:
            descriptor = open_plain(path)
        try:
            lock_alone(descriptor)
            os.unlink(path)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert errors caused by missing or wrong content into a FormatError that names the file."""
    try:
        yield
    except FormatError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: cannot be read: {error!r}") from error


class WriterLock:
    """The exclusive lock of a directory's writer. It ends with the process that holds it."""

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
            reason = f"{error.strerror}: writing to an index needs a file system with file locks"
            raise OSError(error.errno, reason, str(self.path)) from error
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        text = json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": since})
        os.ftruncate(descriptor, 0)
        write_start(descriptor, text.encode())

    @property
    def held(self) -> bool:
        """Whether this process holds the lock. A process forked from the holder does not."""
        return self._descriptor is not None and self._process == os.getpid()

    def refuse_if_lost(self) -> None:
        """Raise a LockedError if the lock file was removed or replaced: another process may hold a new one."""
        if self._descriptor is None or sys.platform == "win32":  # an open file cannot be removed
            return
        held = os.fstat(self._descriptor)
        try:
            current = os.lstat(self.path)
        except FileNotFoundError:
            current = None
        if current is None or not os.path.samestat(current, held):
            raise LockedError(f"{self.path} was removed or replaced: open the index again")

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.release()

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is not None and self.held:
            # Closing is not enough: copies of the descriptor in forked processes would keep the lock.
            with contextlib.suppress(OSError):
                unlock(self._descriptor)
        self._close()

    def _close(self) -> None:
        """Close the descriptor without unlocking: a forked process shares the lock of its parent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _leave_locks_to_parent() -> None:
    for lock in list(held_locks):
        lock._close()
    opening_lock.release()


# A forked process closes its copies of the locks, which would otherwise outlive the parent. A fork waits while
# a lock file is being opened, because its descriptor is not known yet.
held_locks: WeakSet[WriterLock] = WeakSet()
opening_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=opening_lock.acquire,
        after_in_parent=opening_lock.release,
        after_in_child=_leave_locks_to_parent,
    )


def holder(descriptor: int) -> str:
    """Return a description of the process that holds a lock file, as far as it is known."""
    try:
        found = json.loads(read_start(descriptor, 4096))
        process, host = int(found["process"]), str(found["host"])
        name = f"process {process} on {host} since {found['since']}"
        if host == socket.gethostname() and not is_running(process):
            return f"a process that inherited the lock of {name}, which has ended"
        return name
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return "another process"


def is_running(process: int) -> bool:
    """Return whether a process exists on this machine; True where this cannot be determined."""
    if sys.platform == "win32" or process <= 0:  # os.kill would end the process, or address a group
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
