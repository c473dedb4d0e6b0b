"""The exceptions that are pcpq's own. Everything else is a ValueError or an OSError."""


class NotFittedError(ValueError, AttributeError):
    """A quantizer was used before `fit`. Both bases, as scikit-learn's error of the same name has them."""
