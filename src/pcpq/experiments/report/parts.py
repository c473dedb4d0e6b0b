"""Values of a JSON file; errors name the part that is missing or of the wrong type."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any


class Part:
    """A value in a JSON file with its path in the file."""

    def __init__(self, value: Any, file: str, path: str = "") -> None:
        self.value = value
        self.file = file
        self.path = path

    def wrong(self, wanted: str) -> ValueError:
        """Return a ValueError that states what is expected here."""
        shown = repr(self.value)
        if len(shown) > 40:
            shown = shown[:40] + "..."
        return ValueError(f"{self.file}: {self.path or 'the whole'} must be {wanted}, not {shown}")

    def maybe(self, name: str) -> Part | None:
        """Return a field of an object; None if it is missing or null."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        if self.value.get(name) is None:
            return None
        return Part(self.value[name], self.file, f"{self.path}.{name}" if self.path else name)

    def part(self, name: str) -> Part:
        """Return a field of an object; raise a ValueError if it is missing or null."""
        found = self.maybe(name)
        if found is None:
            raise ValueError(f"{self.file}: {f'{self.path}.{name}' if self.path else name} is missing")
        return found

    def rows(self) -> list[Part]:
        """Return the elements of an array."""
        if not isinstance(self.value, list):
            raise self.wrong("an array")
        return [Part(value, self.file, f"{self.path}[{i}]") for i, value in enumerate(self.value)]

    def fields(self) -> dict[str, Part]:
        """Return the fields of an object."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return {name: Part(value, self.file, f"{self.path}.{name}") for name, value in self.value.items()}

    def text(self) -> str:
        """Return the value, which must be a string."""
        if not isinstance(self.value, str):
            raise self.wrong("a string")
        return self.value

    def number(self) -> float:
        """Return the value, which must be a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.wrong("a number")
        try:
            number = float(self.value)
        except OverflowError:
            raise self.wrong("a number of usual size") from None
        if not math.isfinite(number):
            raise self.wrong("a finite number")
        return number

    def positive(self) -> float:
        """Return the value, which must be a number above zero."""
        number = self.number()
        if number <= 0:
            raise self.wrong("above zero")
        return number

    def share(self) -> float:
        """Return the value, which must be a number from 0 to 1."""
        number = self.number()
        if not 0 <= number <= 1:
            raise self.wrong("from 0 to 1")
        return number

    def shares(self, count: int) -> list[float]:
        """Return the elements of an array of `count` numbers from 0 to 1."""
        rows = self.rows()
        if len(rows) != count:
            raise ValueError(f"{self.file}: {self.path} must have {count} numbers, not {len(rows)}")
        return [row.share() for row in rows]


def optional_number(part: Part, name: str) -> float | None:
    """Return a field that is a number; None if it is missing or null."""
    found = part.maybe(name)
    return None if found is None else found.number()


def optional_share(part: Part, name: str) -> float | None:
    """Return a field that is a number from 0 to 1; None if it is missing or null."""
    found = part.maybe(name)
    return None if found is None else found.share()


def optional_text(part: Part, name: str) -> str | None:
    """Return a field that is a string; None if it is missing or null."""
    found = part.maybe(name)
    return None if found is None else found.text()


def optional_rows(part: Part, name: str) -> list[Part]:
    """Return the elements of a field that is an array; an empty list if it is missing or null."""
    found = part.maybe(name)
    return [] if found is None else found.rows()


def read(path: Path) -> Part:
    """Return the content of a JSON file."""
    try:
        return Part(json.loads(path.read_bytes()), path.name)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name}: is not JSON: {error}") from error
