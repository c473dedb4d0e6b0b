"""Tasks, a few at a time: what is done comes back, what dies is done again by Ray, what is wrong ends all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

import ray
from ray.exceptions import RayTaskError

# Tasks that are with Ray at once, for every CPU: more would only lie there.
AHEAD = 2

Task = Callable[[], Any]


def run(tasks: Sequence[Task]) -> Generator[tuple[int, Any], None, None]:
    """What tasks return and which they are, as soon as it is there; `close` ends the others."""
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
    """The same in the order of tasks."""
    early: dict[int, Any] = {}
    wanted = 0
    with closing(run(tasks)) as results:
        for number, result in results:
            early[number] = result
            while wanted in early:
                yield early.pop(wanted)
                wanted += 1


def result_of(reference: Any) -> Any:
    """What a task returned, or what it raised, as if it had been called here."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise


def stop(references: list[Any]) -> None:
    """End tasks that nobody waits for, and wait until they are gone: they may write files."""
    for reference in references:
        ray.cancel(reference, force=True)
    if references:
        ray.wait(references, num_returns=len(references), timeout=60)
