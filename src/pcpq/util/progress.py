"""Progress bars with rate and remaining time on a terminal; plain lines or no output elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Seconds between two updates of a line.
PAUSE = 0.1
# Seconds between two lines where there is no terminal.
PAUSE_OF_LINES = 5.0
# Largest width of the line that is drawn without rich, in characters.
WIDTH = 79
BLOCKS = 14


class Progress:
    """The interface of progress displays, and the display that prints nothing."""

    def say(self, what: str) -> None:
        """Set the name of the current step."""

    def advance(self, amount: float) -> None:
        """Add `amount` to the work done, in units of the total. Safe to call from any thread."""

    def reach(self, done: float, total: float | None) -> None:
        """Set the work done, and the total if it is known."""


class Bar(Progress):
    """A progress bar drawn by rich."""

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
            # Steps differ in duration, so the remaining time is estimated from the last five minutes.
            speed_estimate_period=300,
        )
        self.task = self.display.add_task("", total=total, rate="")

    def __enter__(self) -> Bar:
        self.display.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.display.stop()

    def say(self, what: str) -> None:
        """Set the name of the current step."""
        is_new = what != self.display.tasks[0].description
        # Refresh now, because a short step can end before the next update.
        self.display.update(self.task, description=what, refresh=is_new)

    def advance(self, amount: float) -> None:
        """Add `amount` to the work done."""
        self.display.advance(self.task, amount)

    def reach(self, done: float, total: float | None) -> None:
        """Set the work done and the total, and update the rate."""
        changes: dict[str, Any] = {"completed": done, "total": total}
        speed = self.display.tasks[0].speed
        self.display.update(self.task, **changes, rate=rate_of(speed, self.unit) if speed else "")


class Line(Progress):
    """A progress line drawn without rich, which is overwritten by each update."""

    def __init__(self, total: float | None, unit: str) -> None:
        self.total, self.unit = total, unit
        self.what, self.done, self.drawn = "", 0.0, 0.0
        # Time and amount at the start of counting; steps that are not counted may come first.
        self.start: tuple[float, float] | None = (time.monotonic(), 0.0) if total is not None else None

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *error: object) -> None:
        sys.stderr.write("\r" + " " * WIDTH + "\r")
        sys.stderr.flush()

    def say(self, what: str) -> None:
        """Set the name of the current step."""
        self.what = what
        self._draw(at_once=True)

    def advance(self, amount: float) -> None:
        """Add `amount` to the work done."""
        self.done += amount
        self._draw()

    def reach(self, done: float, total: float | None) -> None:
        """Set the work done and the total."""
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


class Lines(Line):
    """Progress as lines of plain text, one per step and one every few seconds, for logs and notebooks."""

    def __exit__(self, *error: object) -> None:
        if self.done:
            self._write(time.monotonic())

    def _draw(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self.drawn >= PAUSE_OF_LINES:
            self._write(now)

    def _write(self, now: float) -> None:
        self.drawn = now
        sys.stderr.write(self._text(now).rstrip() + "\n")
        sys.stderr.flush()


def rate_of(speed: float, unit: str) -> str:
    """Return a speed as text, such as "1,200 vectors/s"; empty if there is no unit."""
    return f"{speed:,.0f} {unit}/s" if unit else ""


Report = Callable[[int, int | None], None]


@contextmanager
def reported(
    progress: Report | bool | None, what: str, then: str = "", before: str = ""
) -> Iterator[Report | None]:
    """Yield the function to call with the number of vectors done and the total, or None.

    Parameters
    ----------
    progress : True: show a bar on standard error; False or None: report nothing; or a function
    what, then, before : names of the counted step, of the step after it and of the step before it
    """
    if progress is None or progress is False:
        yield None
        return
    if progress is not True:
        if not callable(progress):
            raise ValueError(f"progress is {progress!r}; expected True, or a function of done and total")
        yield progress
        return
    with progress_bar(None, "vectors", plain=True) as bar:
        if before:
            bar.say(before)
        yield counter(bar, None, what, then)


def counter(bar: Progress, rows: int | None, what: str, then: str) -> Report:
    """Return a function that shows the number of vectors on a bar, and names the step after them."""
    started = False

    def count(done: int, total: int | None) -> None:
        nonlocal started
        if not started:
            bar.say(what)
            started = True
        total = rows if total is None else total
        bar.reach(done, total)
        if then and done == total:
            bar.say(then)

    return count


@contextmanager
def progress_bar(total: float | None, unit: str = "", *, plain: bool = False) -> Iterator[Progress]:
    """Yield a progress display: a bar on a terminal, drawn by rich if it is installed, otherwise no output.

    Parameters
    ----------
    total : sum of the amounts passed to `advance`; None if it is not known yet
    unit : plural name of the counted items, used in the rate
    plain : write lines of plain text where there is no terminal, such as in notebooks and log files
    """
    if not sys.stderr.isatty():
        if not plain:
            yield Progress()
            return
        with Lines(total, unit) as lines:
            yield lines
        return
    try:
        bar: Bar | Line = Bar(total, unit)
    except ImportError:
        bar = Line(total, unit)
    with bar:
        yield bar
