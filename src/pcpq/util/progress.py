"""A bar with rate and time left, on a terminal; silence where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Seconds between two drawings of a line.
PAUSE = 0.1
# What the line that is drawn without rich takes at most.
WIDTH = 79
BLOCKS = 14


class Progress:
    """What long work tells of itself. This one keeps it to itself."""

    def say(self, what: str) -> None:
        """Name what is going on now."""

    def advance(self, amount: float) -> None:
        """So much more is done, in units of the total. Any thread may say so."""

    def reach(self, done: float, total: float | None) -> None:
        """So much is done, and so much there is, if anybody knows."""


class Bar(Progress):
    """On a terminal, by rich."""

    def __init__(self, total: float | None, unit: str) -> None:
        from rich import progress
        from rich.console import Console

        self.unit = unit
        self.display = progress.Progress(
            progress.TextColumn("{task.description:<32}"),
            progress.BarColumn(None),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeRemainingColumn(elapsed_when_finished=False),
            progress.TextColumn("left" if total is not None or unit else ""),
            console=Console(stderr=True),
            transient=True,
            # Steps differ in length: the time left is judged by all of the last minutes.
            speed_estimate_period=300,
        )
        self.task = self.display.add_task("", total=total, rate="")

    def __enter__(self) -> Bar:
        self.display.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.display.stop()

    def say(self, what: str) -> None:
        """Name what is going on now."""
        news = what != self.display.tasks[0].description
        # Drawn at once: a short step would be over before the next drawing.
        self.display.update(self.task, description=what, refresh=news)

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self.display.advance(self.task, amount)

    def reach(self, done: float, total: float | None) -> None:
        """So much is done."""
        changes: dict[str, Any] = {"completed": done, "total": total}
        speed = self.display.tasks[0].speed
        self.display.update(self.task, **changes, rate=rate_of(speed, self.unit) if speed else "")


class Line(Progress):
    """On a terminal, without rich: one line that is written over and over."""

    def __init__(self, total: float | None, unit: str) -> None:
        self.total, self.unit = total, unit
        self.what, self.done, self.drawn = "", 0.0, 0.0
        # When counting began, and where: work that nobody counts may come before.
        self.start: tuple[float, float] | None = (time.monotonic(), 0.0) if total is not None else None

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *error: object) -> None:
        sys.stderr.write("\r" + " " * WIDTH + "\r")
        sys.stderr.flush()

    def say(self, what: str) -> None:
        """Name what is going on now."""
        self.what = what
        self._draw(at_once=True)

    def advance(self, amount: float) -> None:
        """So much more is done."""
        self.done += amount
        self._draw()

    def reach(self, done: float, total: float | None) -> None:
        """So much is done."""
        self.done, self.total = done, total
        if self.start is None:
            self.start = (time.monotonic(), done)
        self._draw()

    def _draw(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if not at_once and now - self.drawn < PAUSE:
            return
        self.drawn = now
        sys.stderr.write("\r" + self._text(now)[:WIDTH].ljust(WIDTH))
        sys.stderr.flush()

    def _text(self, now: float) -> str:
        parts = [f"{self.what:<22}"]
        since, first = self.start or (now, self.done)
        speed = (self.done - first) / (now - since) if now > since else 0.0
        if self.total:
            share = min(self.done / self.total, 1.0)
            parts.append(f"[{'#' * round(BLOCKS * share):<{BLOCKS}}] {share:4.0%}")
        if speed > 0 and self.unit:
            parts.append(rate_of(speed, self.unit))
        if speed > 0 and self.total:
            seconds = round(max(self.total - self.done, 0.0) / speed)
            parts.append(f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left")
        return " ".join(parts)


def rate_of(speed: float, unit: str) -> str:
    """So many things a second, if things have a name."""
    return f"{speed:,.0f} {unit}/s" if unit else ""


@contextmanager
def progress_bar(total: float | None, unit: str = "") -> Iterator[Progress]:
    """A bar on a terminal; the extra `cli` makes it a fine one.

    Parameters
    ----------
    total : of the amounts that `advance` will tell; None: nobody knows yet
    unit : what is counted, for a rate
    """
    if not sys.stderr.isatty():
        yield Progress()
        return
    try:
        bar: Bar | Line = Bar(total, unit)
    except ImportError:
        bar = Line(total, unit)
    with bar:
        yield bar
