"""Properties that are made when they are first wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class once(Generic[Value]):
    """As functools.cached_property, without the lock that it has before Python 3.12.

    One lock for all objects of a class: searches would wait for each other, and for ever in a forked process.
    Two threads may make the same value; all get the first.
    """

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type | None = None) -> Value:
        if owner is None:
            return self  # type: ignore[return-value]
        value: Value = vars(owner).setdefault(self._name, self._make(owner))
        return value
