"""Checks of parameter values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """Return `value` as an int; raise a ValueError unless it is an integer from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}; expected a whole number from {least} to {most}")
    return int(value)


def one_of(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raise a ValueError that names the parameter if its value is not allowed."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(repr, allowed))}")
