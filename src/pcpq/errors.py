"""Exceptions and warnings that pcpq defines. All other errors are a ValueError or an OSError."""

from pcpq._core import FormatError

__all__ = ["FormatError", "LockedError", "NotDurableError", "NotFittedError", "RecallWarning"]


class LockedError(BlockingIOError):
    """The index is open for writing in another process or object."""


class NotDurableError(OSError):
    """A commit is visible to readers, but the disk did not confirm it: a power loss can undo it."""


class NotFittedError(ValueError, AttributeError):
    """A quantizer or an index was used before `fit`.

    Its base classes are those of scikit-learn's NotFittedError.
    """


class RecallWarning(UserWarning):
    """Searches find fewer of the best vectors than `target_recall` asks for."""
