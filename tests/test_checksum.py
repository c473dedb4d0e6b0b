import numpy as np
import pytest

import pcpq
from pcpq import _core

pytestmark = [pytest.mark.kernels, pytest.mark.portable, pytest.mark.quick, pytest.mark.arm]


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_known_checksums(content, expected):
    array = np.frombuffer(content, np.uint8)
    assert _core.crc32c(array) == expected
    assert _core.crc32c(array, by_tables=True) == expected


@pytest.mark.parametrize("length", [1, 7, 8, 9, 63, 64, 1000])
def test_a_checksum_goes_on_from_that_of_the_bytes_before(length, generator):
    content = generator.integers(256, size=length).astype(np.uint8)
    whole = _core.crc32c(content)
    for cut in {0, 1, length // 2, length}:
        assert _core.crc32c(content[cut:], before=_core.crc32c(content[:cut])) == whole
        before = _core.crc32c(content[:cut], by_tables=True)
        by_tables = _core.crc32c(content[cut:], before=before, by_tables=True)
        assert by_tables == whole


def test_every_flipped_bit_changes_it(generator):
    content = generator.integers(256, size=100).astype(np.uint8)
    before = _core.crc32c(content)
    for bit in range(800):
        content[bit // 8] ^= 1 << bit % 8
        assert _core.crc32c(content) != before
        content[bit // 8] ^= 1 << bit % 8


@pytest.fixture
def arrays(generator):
    """Two lists of 5 and 40 rows, the second in a block of its own."""
    return {
        "rows": np.array([0, 5, 45]),
        "places": np.array([0, 32, 96]),
        "by_block": [generator.integers(256, size=(3, 64)).astype(np.uint8)],
        "by_row": [generator.integers(256, size=(45, 8)).astype(np.uint8)],
        "kept": generator.integers(256, size=(45, 12)).astype(np.uint8),
        "rows_per_block": 32,
        "rows_per_page": 10,
    }


def guard(arrays, checks=None):
    lists, pages = checks or (np.zeros(2, np.uint32), np.zeros(5, np.uint32))
    made = _core.Guard(file="somewhere", **arrays, list_checks=lists, page_checks=pages)
    if checks is None:
        made.compute(out_lists=lists, out_pages=pages)
    return made, (lists, pages)


def test_a_guard_names_the_list_or_page_that_differs_and_no_other(arrays):
    _, checks = guard(arrays)
    guard(arrays, checks)[0].check_all()
    for array, place, rows, message in (
        (arrays["by_block"][0], (0, 3), [2], "list 0 "),
        (arrays["by_block"][0], (2, 60), [6], "list 1 "),
        (arrays["by_row"][0], (4, 7), [0], "list 0 "),
        (arrays["kept"], (44, 11), [41], "page 4 "),
    ):
        array[place] ^= 16
        damaged, _ = guard(arrays, checks)
        fine = {"list 0 ": 20, "list 1 ": 1, "page 4 ": 10}[message]
        damaged.check_rows(np.array([fine]))
        with pytest.raises(pcpq.FormatError, match=f"somewhere: {message}"):
            damaged.check_rows(np.array(rows))
        with pytest.raises(pcpq.FormatError, match=message):
            damaged.check_all()
        array[place] ^= 16
    with pytest.raises(ValueError, match="no such row"):
        guard(arrays, checks)[0].check_rows(np.array([45]))


def test_what_was_checked_is_not_looked_at_again(arrays):
    _, checks = guard(arrays)
    made, _ = guard(arrays, checks)
    made.check_rows(np.array([3]))
    arrays["by_row"][0][0, 0] ^= 1
    made.check_rows(np.array([3]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", np.array([0, 50, 45])),
        ("rows", np.array([1, 5, 45])),
        ("places", np.array([0, 3, 96])),
        ("places", np.array([0, 32, 64])),
        ("rows_per_page", 0),
        ("kept", np.zeros((44, 12), np.uint8)),
        ("by_row", [np.zeros((44, 8), np.uint8)]),
        ("by_block", [np.zeros((2, 64), np.uint8)]),
    ],
)
def test_arrays_that_do_not_match_are_refused(arrays, name, value):
    _, checks = guard(arrays)
    with pytest.raises(ValueError, match=r"wrong|overlap|begin"):
        guard(arrays | {name: value}, checks)
