"""A bar with the time left, on a terminal; silence where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """What long work tells of itself. This one keeps it to itself."""

    def say(self, what: str) -> None:
        """Name what is going on now."""

    def advance(self, amount: float) -> None:
        """So much more is done, in units of the total. Any thread may say so."""


class Bar(Progress):
    """On a terminal."""

    def __init__(self, total: float) -> None:
        from rich import progress
        from rich.console import Console

        self.display = progress.Progress(
            progress.TextColumn("{task.description:<32}"),
            progress.BarColumn(None),
            progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(elapsed_when_finished=False),
            console=Console(stderr=True),
            # Steps differ in length: the time left is judged by all of the last minutes.
            speed_estimate_period=300,
        )
        self.task = self.display.add_task("", total=total)

    def say(self, what: str) -> None:
        """Name what is going on now."""
        self.display.update(self.task, description=what)

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self.display.advance(self.task, amount)


@contextmanager
def progress_bar(total: float) -> Iterator[Progress]:
    """A bar on a terminal, if the extra `cli` is installed."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    try:
        bar = Bar(total)
    except ImportError:
        yield Progress()
        return
    with bar.display:
        yield bar
