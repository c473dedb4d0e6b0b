"""Threads for native calls, which release the GIL, and for NumPy's BLAS."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ContextDecorator
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_threads(threads: int | None) -> int:
    """Return `threads`, or the number of CPUs available to this process if it is None."""
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
        raise ValueError(
            f"threads is {threads!r}; expected a whole number of at least 1, or None for every CPU"
        )
    return int(threads)


class OneBlasThread(ContextDecorator):
    """Holds NumPy's BLAS to one thread while a thread is inside.

    BLAS starts as many threads as there are CPUs for each call. Called from several threads, or beside another
    busy process, these wait for each other much longer than they work. Some libraries have one setting for the
    process, which lasts until the last thread has left; others have one per thread.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may enter while this thread enters
        self._inside = 0
        self._before: list[int] = []
        self._own = threading.local()

    def __enter__(self) -> None:
        own = self._own
        own.depth = getattr(own, "depth", 0) + 1
        if own.depth > 1:
            return
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = hold(self._libraries[0])
        own.before = hold(self._libraries[1])

    def __exit__(self, *_: object) -> None:
        own = self._own
        own.depth -= 1
        if own.depth:
            return
        restore(self._libraries[1], own.before)
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                restore(self._libraries[0], self._before)

    def after_fork(self) -> None:
        """Forget threads that a child process does not have."""
        self._lock = threading.RLock()
        inside = int(getattr(self._own, "depth", 0) > 0)
        if self._inside and not inside:
            restore(self._libraries[0], self._before)
        self._inside = inside

    @cached_property
    def _libraries(self) -> tuple[list[Any], list[Any]]:
        """The BLAS libraries with one setting for the process, and those with one per thread."""
        from threadpoolctl import ThreadpoolController

        found: tuple[list[Any], list[Any]] = [], []
        for library in ThreadpoolController().select(user_api="blas").lib_controllers:
            per_thread = library.internal_api == "mkl" or getattr(library, "threading_layer", "") == "openmp"
            found[per_thread].append(library)
        return found


def hold(libraries: Sequence[Any]) -> list[int]:
    """Set libraries to one thread and return what they had before."""
    before = [library.num_threads for library in libraries]
    restore(libraries, [1] * len(libraries))
    return before


def restore(libraries: Sequence[Any], counts: Sequence[int]) -> None:
    """Set the number of threads of libraries."""
    for library, count in zip(libraries, counts, strict=True):
        if library.num_threads == count:
            continue
        # threadpoolctl lets one thread control OpenBLAS, and ignores others. Here any may be first or last.
        release = getattr(library, "clear_controlling_thread", lambda force: None)
        release(force=True)
        library.set_num_threads(count)
        release(force=True)


one_blas_thread = OneBlasThread()


class Helpers:
    """Threads that help the calling one; they are kept, because starting a thread takes as long as a search."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.RLock()  # a signal handler may search while this thread does

    def start(self, work: Callable[[], None], count: int) -> list[Future[None]]:
        """Ask `count` threads to call `work`; none if the interpreter is shutting down."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1 << 16, "pcpq")  # starts threads as they are needed
            pool = self._pool
        try:
            return [pool.submit(work) for _ in range(count)]
        except RuntimeError:
            return []

    def after_fork(self) -> None:
        """Forget the threads, which a child process does not have."""
        self._pool, self._lock = None, threading.RLock()


helpers = Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.after_fork)
    os.register_at_fork(after_in_child=helpers.after_fork)


def map_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int | None) -> list[Result]:
    """Return `[function(item) for item in items]`, computed on several threads.

    The calling thread works too, and does not wait for threads that got no processor before all items were
    taken. After an error or Ctrl-C it waits only for calls that have started. If several items fail, the error
    of the first of them is raised.
    """
    waiting = deque(enumerate(items))
    count = min(available_threads(threads), len(waiting))
    results: dict[int, Result] = {}
    errors: dict[int, Exception] = {}

    def take() -> tuple[int, Item] | None:
        try:
            return waiting.popleft()
        except IndexError:
            return None

    @one_blas_thread
    def work() -> None:
        while (taken := take()) is not None:
            number, item = taken
            try:
                results[number] = function(item)
            except Exception as error:
                errors[number] = error
                waiting.clear()

    helping = helpers.start(work, count - 1) if count > 1 else []
    try:
        work()
    finally:
        waiting.clear()
        wait([helper for helper in helping if not helper.cancel()])
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(results))]


def map_ahead(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in order, computed ahead on at most `threads` threads."""
    count = available_threads(threads)
    work = one_blas_thread(function)
    if count == 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(count)
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            del item  # frees its memory before the next item is made
            if len(waiting) == count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
