"""The interface by which a segment verifies arrays that were read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pcpq import _core


class Guard(Protocol):
    """Checksums of the arrays of a segment; each is verified once, before its array is used."""

    native: _core.Guard

    @property
    def path(self) -> Path:
        """The file that the arrays were read from."""

    @property
    def list_checks(self) -> NDArray[np.uint32]:
        """The (L,) checksums of lists, as the file has them."""

    def ids(self) -> None:
        """Verify all ids; raise a FormatError if they differ from what was written."""

    def rows(self, rows: NDArray[np.integer[Any]]) -> None:
        """Verify the kept vectors of some rows; raise a FormatError if they differ from what was written."""

    def everything(self) -> None:
        """Verify all arrays; raise a FormatError if one differs from what was written."""


class SecondGuard(Protocol):
    """Checksums of the second lists of a segment."""

    native: _core.Guard
    path: Path

    def lists(self) -> None:
        """Verify all lists; raise a FormatError unless they are as written."""

    def everything(self) -> None:
        """Verify all lists; raise a FormatError unless they are as written and hold every row once."""
