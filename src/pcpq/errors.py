"""The exceptions that are pcpq's own. Everything else is a ValueError or an OSError."""

from pcpq._core import FormatError

__all__ = ["FormatError", "LockedError", "NotFittedError"]


class LockedError(BlockingIOError):
    """Somebody else writes to an index."""


class NotFittedError(ValueError, AttributeError):
    """A quantizer was used before `fit`. Both bases, as scikit-learn's error of the same name has them."""
