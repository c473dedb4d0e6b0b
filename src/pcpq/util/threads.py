"""Thread pools for native calls, which release the GIL."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_threads(threads: int | None) -> int:
    """Return `threads`, or the number of CPUs available to this process if it is None."""
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if threads < 1:
        raise ValueError(f"threads is {threads}; expected at least 1, or None for every CPU")
    return threads


def map_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int | None) -> list[Result]:
    """Return `[function(item) for item in items]`, computed on several threads."""
    items = list(items)
    count = min(available_threads(threads), len(items))
    if count <= 1:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(count)
    try:
        return list(pool.map(function, items))
    finally:
        # After an error or Ctrl-C, wait only for calls that have started.
        pool.shutdown(cancel_futures=True)


def map_ahead(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in order, computed ahead on at most `threads` threads."""
    count = available_threads(threads)
    if count == 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(count)
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            del item  # frees its memory before the next item is made
            if len(waiting) == count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
