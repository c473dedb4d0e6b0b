"""Warnings to users."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the line of the program that called pcpq, however deep the call is."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("pcpq."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
