"""Ray tasks, a limited number at a time. Ray repeats tasks that die; an exception in a task ends all tasks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

import ray
from ray.exceptions import RayTaskError

# Tasks per CPU that are submitted to Ray at a time; more would only wait in its queue.
AHEAD = 2

Task = Callable[[], Any]


def run(tasks: Sequence[Task]) -> Generator[tuple[int, Any], None, None]:
    """Yield numbers and results of tasks as they finish; `close` ends the tasks that are still running."""
    most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting: dict[Any, int] = {}
    started = 0
    try:
        while started < len(tasks) or waiting:
            while started < len(tasks) and len(waiting) < most:
                waiting[tasks[started]()] = started
                started += 1
            done, _ = ray.wait(list(waiting), num_returns=1)
            number = waiting.pop(done[0])
            yield number, result_of(done[0])
    finally:
        stop(list(waiting))


def in_order(tasks: Sequence[Task]) -> Generator[Any, None, None]:
    """Yield the results of tasks in the order of tasks."""
    early: dict[int, Any] = {}
    wanted = 0
    with closing(run(tasks)) as results:
        for number, result in results:
            early[number] = result
            while wanted in early:
                yield early.pop(wanted)
                wanted += 1


def result_of(reference: Any) -> Any:
    """Return the result of a task, or raise the exception that it raised."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise


def stop(references: list[Any]) -> None:
    """Cancel tasks and wait until they have ended, because they may be writing files."""
    for reference in references:
        ray.cancel(reference, force=True)
    if references:
        ray.wait(references, num_returns=len(references), timeout=60)
