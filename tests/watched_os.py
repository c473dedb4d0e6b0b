"""Stand-ins for `os` that refuse to write, or count calls."""

import errno
import os
from collections import Counter

from faulty_os import failing


class ReadOnlyOs:
    """`os`, in which nothing that changes a disk succeeds."""

    calls = ("write", "fsync", "replace", "unlink", "mkdir", "rmdir", "link", "ftruncate")

    def __getattr__(self, name):
        if name in self.calls:
            return lambda *arguments, **named: failing(errno.EROFS)(None)
        return getattr(os, name)

    def open(self, path, flags, *mode, **named):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return os.open(path, flags, *mode, **named)


class CountingOs:
    """`os` that counts calls."""

    def __init__(self):
        self.calls = Counter()

    def __getattr__(self, name):
        real = getattr(os, name)
        if not callable(real) or isinstance(real, type):
            return real

        def call(*arguments, **named):
            self.calls[name] += 1
            return real(*arguments, **named)

        return call
