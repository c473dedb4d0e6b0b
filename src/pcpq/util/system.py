"""Functions that differ between POSIX and Windows: open flags, file locks, access to files in use."""

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

# Open flags for binary files that child processes do not inherit; names differ on Windows.
PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
NO_WAITING = getattr(os, "O_NONBLOCK", 0)
# Error codes of file systems without file locks.
NO_LOCKS = frozenset(
    getattr(errno, name)
    for name in ("ENOLCK", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EINVAL")
    if hasattr(errno, name)
)
# Error codes of file systems that cannot sync a directory.
NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})
# Seconds that a reader waits for the shared lock of a file. A writer takes the exclusive lock only to remove
# the file.
MOST_WAIT = 0.5
FIRST_WAIT = 0.001
Result = TypeVar("Result")

if sys.platform == "win32":
    # Beyond the end of any lock file, because locked bytes cannot be read by other processes.
    LOCKED_BYTE = 1 << 30
    # Seconds between attempts while another process has a file open.
    WAITS = [0.001 * 2**i for i in range(10)]

    def lock_alone(descriptor: int) -> None:
        """Take the exclusive lock of an open file; raise a BlockingIOError if it is taken."""
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EDEADLK):
                raise
            raise BlockingIOError(error.errno, error.strerror) from error

    def unlock(descriptor: int) -> None:
        """Release the lock of an open file."""
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def mark_as_read(descriptor: int) -> str | None:
        """Return None: Windows does not remove a file that is mapped, so no lock is needed."""
        return None

    def read_start(descriptor: int, size: int) -> bytes:
        """Return the first `size` bytes of a file."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        return os.read(descriptor, size)

    def write_start(descriptor: int, content: bytes) -> None:
        """Write bytes at the start of a file."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, content)

    def patiently(act: Callable[[], Result]) -> Result:
        """Call `act`, and repeat it while Windows refuses access because another process has the file open."""
        for wait in WAITS:
            try:
                return act()
            except PermissionError:
                time.sleep(wait)
        return act()

else:

    def lock_alone(descriptor: int) -> None:
        """Take the exclusive lock of an open file; raise a BlockingIOError if it is taken."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(descriptor: int) -> None:
        """Release the lock of an open file."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def mark_as_read(descriptor: int) -> str | None:
        """Take the shared lock of an open file, which excludes `lock_alone`; return the reason if that fails.

        Waits at most MOST_WAIT seconds: any user with read access can lock a file, and this must not block
        other readers.
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
        """Return the first `size` bytes of a file."""
        return os.pread(descriptor, size, 0)

    def write_start(descriptor: int, content: bytes) -> None:
        """Write bytes at the start of a file."""
        os.pwrite(descriptor, content, 0)

    def patiently(act: Callable[[], Result]) -> Result:
        """Call `act`; POSIX does not refuse access to files in use."""
        return act()
