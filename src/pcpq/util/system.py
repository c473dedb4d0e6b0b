"""What POSIX and Windows have different words for: flags, locks of open files, files that others have open."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from typing import TypeVar

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Bytes as they are, and no business of processes that are started: Windows has its own words for it.
PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
NO_WAITING = getattr(os, "O_NONBLOCK", 0)
# What a file system answers that has no file locks.
NO_LOCKS = frozenset(
    getattr(errno, name)
    for name in ("ENOLCK", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EINVAL")
    if hasattr(errno, name)
)
# What a file system answers that cannot sync a directory.
NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})
# Seconds that a reader waits for the shared lock of a file. A writer takes the other only to remove the file.
MOST_WAIT = 0.5
FIRST_WAIT = 0.001
Result = TypeVar("Result")

if sys.platform == "win32":
    # Beyond the end of any lock file: what is locked there cannot be read by others.
    LOCKED_BYTE = 1 << 30
    # Seconds to wait for whoever has a file open this moment.
    WAITS = [0.001 * 2**i for i in range(10)]

    def lock_alone(descriptor: int) -> None:
        """Take the lock of an open file; BlockingIOError if another has it."""
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EDEADLK):
                raise
            raise BlockingIOError(error.errno, error.strerror) from error

    def unlock(descriptor: int) -> None:
        """Let others have it."""
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def mark_as_read(descriptor: int) -> str | None:
        """Nothing to do: a file that is mapped cannot be removed."""
        return None

    def read_start(descriptor: int, size: int) -> bytes:
        """The first bytes of a file."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        return os.read(descriptor, size)

    def write_start(descriptor: int, content: bytes) -> None:
        """Put bytes at the start of a file."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, content)

    def patiently(act: Callable[[], Result]) -> Result:
        """Do something with a file that others may have open for a moment, which would be refused."""
        for wait in WAITS:
            try:
                return act()
            except PermissionError:
                time.sleep(wait)
        return act()

else:

    def lock_alone(descriptor: int) -> None:
        """Take the lock of an open file; BlockingIOError if another has it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(descriptor: int) -> None:
        """Let others have it."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def mark_as_read(descriptor: int) -> str | None:
        """Keep `lock_alone` away as long as the file is open; what was in the way, if that cannot be done.

        Never waits long: any user who can read a file can lock it, and must not stop others from reading it.
        """
        wait = FIRST_WAIT
        deadline = time.monotonic() + MOST_WAIT
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return f"another process has locked it for more than {MOST_WAIT} s"
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
                return f"the file system has no file locks ({error.strerror})"
            time.sleep(wait)
            wait *= 2

    def read_start(descriptor: int, size: int) -> bytes:
        """The first bytes of a file."""
        return os.pread(descriptor, size, 0)

    def write_start(descriptor: int, content: bytes) -> None:
        """Put bytes at the start of a file."""
        os.pwrite(descriptor, content, 0)

    def patiently(act: Callable[[], Result]) -> Result:
        """Do something with a file that others may have open."""
        return act()
