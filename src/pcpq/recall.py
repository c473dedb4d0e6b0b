"""The former place of `pcpq.RecallCurve` and `pcpq.Choice`."""

import warnings
from typing import Any

import pcpq


def __getattr__(name: str) -> Any:
    if name not in ("RecallCurve", "Choice"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"pcpq.recall.{name} is now pcpq.{name}", DeprecationWarning, stacklevel=2)
    return getattr(pcpq, name)
