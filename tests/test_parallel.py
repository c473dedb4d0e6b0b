import contextlib
import os
import sys
import threading
import time
import warnings
from concurrent.futures import Future

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import pcpq.util.threads as threads_module
from pcpq.util.threads import available_threads, map_ahead, map_threads


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_whichever_is_done_first(threads):
    def late(number):
        time.sleep(0.02 if number % 3 == 0 else 0)
        return number * number

    expected = [number * number for number in range(20)]
    assert list(map_ahead(late, iter(range(20)), threads)) == expected
    assert map_threads(late, range(20), threads) == expected


@pytest.mark.parametrize("threads", [1, 3])
def test_only_a_few_items_are_taken_before_they_are_asked_for(threads):
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    results = map_ahead(lambda number: number, items(), threads)
    for number in range(10):
        assert next(results) == number
        assert len(taken) <= number + 1 + threads
    results.close()
    assert len(taken) < 20


def test_items_are_made_on_the_calling_thread_and_an_error_is_raised_in_its_turn():
    makers, begun = set(), []

    def items():
        for number in range(50):
            makers.add(threading.get_ident())
            yield number

    def fail(number):
        begun.append(number)
        if number == 4:
            raise ValueError("the fifth")
        return number

    results = map_ahead(fail, items(), 2)
    assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="the fifth"):
        next(results)
    assert makers == {threading.get_ident()}
    assert max(begun) < 10


def test_no_threads_are_refused():
    with pytest.raises(ValueError, match="threads is 0"):
        available_threads(0)


def blas_threads():
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library.num_threads for library in libraries]


@pytest.fixture
def several_blas_threads():
    """Let BLAS have three threads: a machine with one processor has one."""
    if not blas_threads():
        pytest.skip("NumPy's BLAS cannot be told how many threads to use")
    # Other tests may have loaded libraries with a BLAS of their own since it was looked up.
    vars(threads_module.one_blas_thread).pop("_libraries", None)
    with threadpool_limits(3, user_api="blas"):
        yield


@pytest.mark.usefixtures("several_blas_threads")
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_blas_has_one_thread_while_ours_work_and_as_many_as_before_afterwards(threads):
    def count(_):
        return max(blas_threads())

    assert set(map_threads(count, range(20), threads)) == {1}
    assert set(map_ahead(count, range(20), threads)) == {1}
    assert set(blas_threads()) == {3}
    with pytest.raises(ZeroDivisionError):
        map_threads(lambda number: 1 // number, range(20), threads)
    assert set(blas_threads()) == {3}


@pytest.mark.usefixtures("several_blas_threads")
def test_blas_is_held_until_the_last_of_overlapping_calls_ends():
    begun, go_on, after_the_first = threading.Event(), threading.Event(), []

    def long_call(_):
        begun.set()
        go_on.wait(30)
        after_the_first.extend(blas_threads())

    other = threading.Thread(target=map_threads, args=(long_call, [0], 1))
    other.start()
    begun.wait(30)
    map_threads(str, range(3), 2)
    go_on.set()
    other.join()
    assert set(after_the_first) == {1}
    assert set(blas_threads()) == {3}


@pytest.mark.linux
@pytest.mark.usefixtures("several_blas_threads")
def test_a_forked_child_has_all_blas_threads_and_threads_of_its_own():
    begun, go_on = threading.Event(), threading.Event()

    def long_call(_):
        begun.set()
        go_on.wait(30)

    other = threading.Thread(target=map_threads, args=(long_call, range(2), 2))
    other.start()
    begun.wait(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
        child = os.fork()
    if child == 0:
        squares = map_threads(lambda number: number * number, range(8), 3)
        os._exit(0 if set(blas_threads()) == {3} and squares == [n * n for n in range(8)] else 1)
    go_on.set()
    other.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_thread_that_gets_no_processor_is_not_waited_for(monkeypatch):
    never = Future()
    monkeypatch.setattr(threads_module.helpers, "start", lambda work, count: [never] * count)
    assert map_threads(str, range(5), 4) == ["0", "1", "2", "3", "4"]
    assert never.cancelled()


def test_the_error_of_the_first_failing_item_is_raised_whichever_fails_first():
    both = threading.Barrier(2)

    def fail(number):
        both.wait(30)
        if number == 0:
            time.sleep(0.05)
        raise ValueError(f"item {number}")

    with pytest.raises(ValueError, match="item 0"):
        map_threads(fail, range(2), 2)


def test_calls_within_calls_end():
    def sums(number):
        return sum(map_threads(lambda other: number * other, range(10), 8))

    assert map_threads(sums, range(40), 8) == [45 * number for number in range(40)]


def test_results_are_complete_where_threads_cannot_be_started(monkeypatch):
    start, started = threading.Thread.start, []

    def limited(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    def slow(number):
        time.sleep(0.05 if threading.current_thread() in started else 0.01)
        return number

    monkeypatch.setattr(threads_module, "helpers", threads_module.Helpers())
    monkeypatch.setattr(threading.Thread, "start", limited)
    for _ in range(5):
        assert map_threads(slow, range(6), 4) == list(range(6))


def test_a_handler_that_interrupts_the_start_of_threads_works_alone(monkeypatch):
    inner = []

    class Interrupted:
        """A pool in whose locked part a signal handler searches."""

        def submit(self, work):
            inner.append(map_threads(str, range(3), 3))
            raise RuntimeError("can't start new thread")

    own = threads_module.Helpers()
    own._pool = Interrupted()
    monkeypatch.setattr(threads_module, "helpers", own)
    assert map_threads(str, range(4), 4) == ["0", "1", "2", "3"]
    assert inner == [["0", "1", "2"]]


@pytest.mark.usefixtures("several_blas_threads")
@pytest.mark.parametrize("method", ["__enter__", "__exit__"])
def test_after_an_interruption_blas_is_held_and_released_again(method):
    code = getattr(threads_module.OneBlasThread, method).__code__
    lines = sorted({line for *_, line in code.co_lines() if line is not None})[1:]
    # Until the depth is counted down, an interrupted exit cannot be told from a nested entry.
    for stop in lines[2:] if method == "__exit__" else lines:

        def trace(frame, event, argument, stop=stop):
            if frame.f_code is code and event == "line" and frame.f_lineno == stop:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace if frame.f_code is code or event == "call" else None

        sys.settrace(trace)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                map_threads(str, [1], 1)
        finally:
            sys.settrace(None)
        assert map_threads(lambda _: max(blas_threads()), [1], 1) == [1]
        assert set(blas_threads()) == {3}
