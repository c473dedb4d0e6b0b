"""The exceptions that are pcpq's own. Everything else is a ValueError or an OSError."""

from pcpq._core import FormatError

__all__ = ["FormatError", "LockedError", "NotDurableError", "NotFittedError"]


class LockedError(BlockingIOError):
    """Another process or object has an index open for writing."""


class NotDurableError(OSError):
    """A commit is there for every reader, but the disk did not confirm it: a power loss may undo it."""


class NotFittedError(ValueError, AttributeError):
    """A quantizer was used before `fit`. Both bases, as scikit-learn's error of the same name has them."""
