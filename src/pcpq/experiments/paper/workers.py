"""Processes that train thousands of small quantizers, because short calls in threads wait for the GIL."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from types import TracebackType
from typing import TypeVar

from pcpq.util.threads import one_blas_thread

Item = TypeVar("Item")
Result = TypeVar("Result")


def hold_blas() -> None:
    """Hold the BLAS of this process to one thread for good."""
    one_blas_thread.__enter__()


class Workers:
    """A pool of processes; with a count of 1, the work is done in this process."""

    def __init__(self, count: int) -> None:
        self.count = count
        # Spawned, because a fork would copy locks that threads hold.
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(count, context, hold_blas) if count > 1 else None

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], done: Callable[[], None]
    ) -> list[Result]:
        """Return `[function(item) for item in items]`; `done` is called after each item."""
        results = []
        for result in map(function, items) if self.pool is None else self.pool.map(function, items):
            results.append(result)
            done()
        return results

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
