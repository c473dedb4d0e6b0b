"""Attributes that are computed at first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class lazy(Generic[Value]):
    """A cached property, as functools.cached_property, without the lock that Python has before version 3.12.

    That lock is shared by all objects of a class: searches would wait for each other, and forever in a forked
    process. Two threads may compute the same value; both get the value that was stored first.
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
