"""Threads for native calls, which release the GIL, and for NumPy's BLAS."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
        self._inside: set[int] = set()  # threads
        self._before: list[int] = []
        self._own = threading.local()

    # Ctrl-C can interrupt any line. What it leaves behind is put right when the thread enters or leaves again.

    def __enter__(self) -> None:
        shared, per_thread = self._libraries
        own = self._own
        if getattr(own, "depth", 0) == 0:
            with self._lock:
                if not self._inside:
                    self._before = counts_of(shared)
                self._inside.add(threading.get_ident())
                set_counts(shared, [1] * len(shared))
            own.before = counts_of(per_thread)
            set_counts(per_thread, [1] * len(per_thread))
            own.depth = 0
        own.depth += 1

    def __exit__(self, *_: object) -> None:
        own = self._own
        own.depth -= 1
        if own.depth:
            return
        shared, per_thread = self._libraries
        set_counts(per_thread, own.before)
        with self._lock:
            if self._inside <= {threading.get_ident()}:
                set_counts(shared, self._before)
            self._inside.discard(threading.get_ident())

    def after_fork(self) -> None:
        """Forget threads that a child process does not have."""
        self._lock = threading.RLock()
        here = {threading.get_ident()} if getattr(self._own, "depth", 0) else set()
        if self._inside and not here:
            set_counts(self._libraries[0], self._before)
        self._inside = here

    @cached_property
    def _libraries(self) -> tuple[list[Any], list[Any]]:
        """The BLAS libraries with one setting for the process, and those with one per thread."""
        from threadpoolctl import ThreadpoolController

        found: tuple[list[Any], list[Any]] = [], []
        for library in ThreadpoolController().select(user_api="blas").lib_controllers:
            per_thread = library.internal_api == "mkl" or getattr(library, "threading_layer", "") == "openmp"
            found[per_thread].append(library)
        return found


def counts_of(libraries: Sequence[Any]) -> list[int]:
    """Return the number of threads of libraries."""
    return [library.num_threads for library in libraries]


def set_counts(libraries: Sequence[Any], counts: Sequence[int]) -> None:
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
        self._own = threading.local()

    def start(self, work: Callable[[], None], count: int) -> list[Future[None]]:
        """Ask up to `count` threads to call `work`; fewer, even none, if threads cannot be started.

        `work` may be called by a thread that is not among those returned. A signal handler that interrupts this
        function gets no thread, because the locks of a pool are not reentrant.
        """
        if getattr(self._own, "starting", False):
            return []
        started: list[Future[None]] = []
        self._own.starting = True
        try:
            with self._lock:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(1 << 16, "pcpq")  # starts threads as they are needed
            for _ in range(count):
                started.append(self._pool.submit(work))
        except RuntimeError:  # a limit of threads, or the interpreter is shutting down
            pass
        finally:
            self._own.starting = False
        return started

    def after_fork(self) -> None:
        """Forget the threads, which a child process does not have."""
        vars(self).update(vars(Helpers()))


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
    total = len(waiting)
    count = min(available_threads(threads), total)
    results: dict[int, Result] = {}
    errors: dict[int, Exception] = {}
    working: set[int] = set()  # threads that have taken an item
    changed = threading.Condition()

    def take() -> tuple[int, Item] | None:
        with changed:
            if not waiting:
                return None
            working.add(threading.get_ident())
            return waiting.popleft()

    def finish() -> None:
        with changed:
            working.discard(threading.get_ident())
            changed.notify_all()

    def work() -> None:
        while (taken := take()) is not None:
            number, item = taken
            try:
                # For each item, so that a thread that comes late, and takes none, does not hold BLAS.
                with one_blas_thread:
                    results[number] = function(item)
            except Exception as error:
                errors[number] = error
                waiting.clear()
            finally:
                finish()

    helping = helpers.start(work, count - 1) if count > 1 else []
    try:
        with one_blas_thread:
            work()
    finally:
        waiting.clear()
        for helper in helping:
            helper.cancel()
        with changed:
            changed.wait_for(lambda: working <= {threading.get_ident()})
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(total)]


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
