"""Flipped bits; files that are cut, missing or exchanged: an error says so, or the answer is right."""

import os

import pytest
from damage import SOME, examine, ids_of
from small_indexes import TORTURE, files

import pcpq
from pcpq.store.manifest import MANIFEST

pytestmark = [pytest.mark.kernels, pytest.mark.torture]

EVERY_BIT = 1 if TORTURE else 37
EVERY_LENGTH = 1 if TORTURE else 61


@pytest.mark.parametrize("variant", SOME, indirect=True)
@pytest.mark.parametrize("kind", ["manifest", "trained", "segment", "live", "attributes", "lock"])
def test_a_flipped_bit_is_noticed_or_does_not_matter(kind, variant, path):
    ids, noticed, flips, unnamed = ids_of(variant), 0, 0, []
    wanted = examine(path, ids)
    for file in sorted(path.glob(f"{kind}*")):
        content = file.read_bytes()
        descriptor = os.open(file, os.O_RDWR)
        for bit in range(0, 8 * len(content), EVERY_BIT):
            flips += 1
            os.pwrite(descriptor, bytes([content[bit // 8] ^ 1 << bit % 8]), bit // 8)
            try:
                assert examine(path, ids) == wanted, (file.name, bit)
            except pcpq.FormatError as error:
                noticed += 1
                unnamed += [(bit, str(error))] * (file.name not in str(error))
            finally:
                os.pwrite(descriptor, content[bit // 8 : bit // 8 + 1], bit // 8)
        os.close(descriptor)
    assert examine(path, ids) == wanted
    assert unnamed == []
    assert noticed == 0 if kind == "lock" else noticed >= 0.6 * flips


@pytest.mark.parametrize("variant", SOME, indirect=True)
@pytest.mark.parametrize("kind", ["manifest", "trained", "segment", "live", "attributes"])
def test_a_file_that_is_too_short_or_too_long_is_noticed(kind, variant, path):
    ids = ids_of(variant)
    wanted = examine(path, ids)
    for file in sorted(path.glob(f"{kind}*")):
        content = file.read_bytes()
        for length in range(0, len(content), EVERY_LENGTH):
            file.write_bytes(content[:length])
            with pytest.raises(pcpq.FormatError, match=file.name):
                examine(path, ids)
        for more in (b"\0", b"{}", content):  # not even the manifest may be followed by anything
            file.write_bytes(content + more)
            with pytest.raises(pcpq.FormatError, match=file.name):
                examine(path, ids)
        file.write_bytes(content)
    assert examine(path, ids) == wanted


def test_a_file_that_is_missing_is_named(variant, path):
    ids = ids_of(variant)
    for file in sorted(path.iterdir()):
        file.rename(path.parent / "elsewhere")
        if file.name == "lock":
            examine(path, ids)
        elif file.name == MANIFEST:
            with pytest.raises(FileNotFoundError, match="no manifest"):
                pcpq.open(path)
        else:
            with pytest.raises((pcpq.FormatError, FileNotFoundError), match=file.name):
                examine(path, ids)
        (path.parent / "elsewhere").rename(file)


def test_files_in_each_others_place_are_noticed(variant, path):
    names = [name for name in files(path) if name.endswith(".safetensors")]
    for first in names:
        for second in names:
            if first < second:
                one, other = (path / first).read_bytes(), (path / second).read_bytes()
                (path / first).write_bytes(other)
                (path / second).write_bytes(one)
                with pytest.raises(pcpq.FormatError, match=f"{first}|{second}"):
                    examine(path, ids_of(variant))
                (path / first).write_bytes(one)
                (path / second).write_bytes(other)


@pytest.mark.parametrize("what", ["link", "directory", "pipe", "dangling link"])
def test_what_is_no_plain_file_is_neither_followed_nor_waited_for(what, numbers):
    for name in files(numbers):
        if name == "lock":
            continue
        file, real = numbers / name, numbers.parent / "real"
        file.rename(real)
        if what == "link":
            file.symlink_to(real)
        elif what == "directory":
            file.mkdir()
        elif what == "pipe":
            os.mkfifo(file)
        else:
            file.symlink_to("/nowhere/at/all")
        with pytest.raises(pcpq.FormatError, match=name):
            pcpq.open(numbers)
        file.rmdir() if what == "directory" else file.unlink()
        real.rename(file)
    pcpq.open(numbers)


def test_a_lock_that_leads_elsewhere_is_not_followed(numbers):
    (numbers / "lock").unlink()
    victim = numbers.parent / "victim"
    victim.write_text("mine")
    (numbers / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="lock"):
        pcpq.open(numbers, mode="a")
    assert victim.read_text() == "mine"
    assert len(pcpq.open(numbers)) > 0


def test_a_lock_full_of_nonsense_is_a_lock(numbers):
    for text in (b"", b"{", b"[1]", b'{"process": [], "host": 5}', b"\xff" * 10_000, b"[" * 4096):
        (numbers / "lock").write_bytes(text)
        with pcpq.open(numbers, mode="a"):
            (numbers / "lock").write_bytes(text)
            with pytest.raises(pcpq.LockedError):
                pcpq.open(numbers, mode="a")
