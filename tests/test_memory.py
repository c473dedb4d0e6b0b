import sys

import numpy as np
import pytest

from pcpq.util import pages as memory
from pcpq.util.pages import Pages


def resident(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))


@pytest.mark.parametrize("shape", [(5,), (7, 3), (4, 0)])
def test_rows_that_move_to_more_room_are_the_same(shape, monkeypatch):
    monkeypatch.setattr(memory, "PIECE_BYTES", 16)
    pages = Pages(shape, np.int32)
    pages.array[:] = np.arange(pages.array.size).reshape(shape)
    expected = pages.array.copy()
    moved = pages.moved(len(expected) - 1, 3 * len(expected))
    assert moved.array.shape == (3 * shape[0], *shape[1:])
    np.testing.assert_array_equal(moved.array[: len(expected) - 1], expected[:-1])


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not report resident memory")
def test_rows_are_never_there_twice():
    before = resident("RssAnon")
    pages = Pages((1 << 18, 64), np.float32)  # 64 MB
    assert resident("RssAnon") - before < 8 << 20
    pages.array[:] = 1
    moved = pages.moved(len(pages.array), 4 * len(pages.array))
    assert resident("RssAnon") - before < 80 << 20
    assert moved.array[: len(pages.array)].all()
