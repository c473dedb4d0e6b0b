"""`os` with calls that fail, and what may come of a commit then."""

import errno
import os

import numpy as np
from small_indexes import VECTORS, answers, some_vectors

import pcpq

IDS = range(0, 420, 9)


class FaultyOs:
    """`os`, in which call `at` of the function `name` does not do what it should."""

    def __init__(self, name, at, fault):
        self.name, self.at, self.fault = name, at, fault
        self.calls, self.struck, self.replaced, self.replaced_before = 0, False, False, False

    def __getattr__(self, attribute):
        real = getattr(os, attribute)
        if attribute == "replace":
            real = self.noting_replace
        if attribute != self.name:
            return real

        def call(*arguments, **named):
            self.calls += 1
            if self.calls - 1 != self.at:
                return real(*arguments, **named)
            self.struck, self.replaced_before = True, self.replaced
            return self.fault(real, *arguments, **named)

        return call

    def noting_replace(self, *arguments):
        os.replace(*arguments)
        self.replaced = True


def failing(number):
    def fault(real, *arguments, **named):
        raise OSError(number, os.strerror(number))

    return fault


def half_written_then_full(real, descriptor, content):
    real(descriptor, content[: len(content) // 2])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupted(real, *arguments, **named):
    raise KeyboardInterrupt


def change(index):
    """Add a segment with unpacked codes, upsert ids that exist, and remove some, which makes a live mask."""
    index.add(VECTORS[300:312], np.arange(400, 412))
    index.upsert(some_vectors(6, seed=8), np.arange(27, 33))
    index.remove(np.arange(90, 100))


def fails(call, fault):
    """Return whether a call failed; assert that it failed with the right error."""
    failure = None
    try:
        call()
    except (OSError, KeyboardInterrupt) as error:
        failure = error
    if isinstance(failure, OSError):
        assert failure.errno in (errno.ENOSPC, errno.EIO, errno.EMFILE), repr(failure)
        assert not isinstance(failure, pcpq.LockedError)
    elif failure is not None:
        assert fault is interrupted
    return failure is not None


def commit_more(writer, path):
    """Add rows and commit; return the answers afterwards."""
    writer.add(VECTORS[312:315], [500, 501, 502])
    writer.commit()
    new = answers(writer, IDS)
    assert 501 in pcpq.open(path)
    return new


def another_writer_goes_on(path, old, new):
    """Open another writer, make the change if it is missing, and commit."""
    with pcpq.open(path, mode="a") as writer:
        if answers(writer, IDS) == old:
            change(writer)
        writer.commit()
        assert answers(writer, IDS) == new
    assert answers(pcpq.open(path), IDS) == new
