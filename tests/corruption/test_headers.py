"""Headers of files that lie although their checksums are right."""

import pytest
from damage import HEADERS, KINDS, examine, ids_of, overlapping, refused
from forging import file_of, forge, set_entry
from small_indexes import TORTURE

pytestmark = [pytest.mark.kernels, pytest.mark.torture]


def test_what_is_written_again_without_a_change_is_the_same(variant, path):
    ids = ids_of(variant)
    wanted = examine(path, ids)
    for kind in KINDS:
        forge(path, kind, lambda arrays: None, lambda header: None)
    assert examine(path, ids) == wanted
    assert not refused(path, ids)


@pytest.mark.parametrize("kind", KINDS if TORTURE else ["first", "live"])
@pytest.mark.parametrize("edit", HEADERS.values(), ids=list(HEADERS))
def test_a_header_that_lies_is_refused(edit, kind, numbers):
    if edit is overlapping and kind == "live":
        pytest.skip("one array cannot overlap")
    forge(numbers, kind, edit_header=edit)
    assert refused(numbers, ids_of("numbers"))


@pytest.mark.parametrize("kind", KINDS if TORTURE else ["first", "live"])
@pytest.mark.parametrize("length", [0, 1, 2, "file", "more", 1 << 26, 1 << 32, 1 << 63, (1 << 64) - 1])
def test_a_header_of_an_impossible_length_is_refused(length, kind, numbers):
    file = file_of(numbers, kind)
    content = (numbers / file).read_bytes()
    length = {"file": len(content) - 8, "more": len(content) - 7}.get(length, length)
    forged = length.to_bytes(8, "little") + content[8:]
    set_entry(numbers, file, forged)
    assert refused(numbers, ids_of("numbers"))


@pytest.mark.parametrize("kind", KINDS if TORTURE else ["trained", "live"])
@pytest.mark.parametrize("content", [b"", b"1", b"1234567", bytes(8), bytes(1000), b"\x80\x04" * 50])
def test_a_file_of_nothing_is_refused(content, kind, numbers):
    set_entry(numbers, file_of(numbers, kind), content)
    assert refused(numbers, ids_of("numbers"))
