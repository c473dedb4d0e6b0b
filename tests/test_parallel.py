import threading
import time

import pytest

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
