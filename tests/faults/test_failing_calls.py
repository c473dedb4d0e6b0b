"""Every call that writes fails: what was there stays, and nothing is in the way later."""

import errno
import itertools
import shutil

import pytest
from faulty_os import (
    IDS,
    FaultyOs,
    another_writer_goes_on,
    change,
    commit_more,
    failing,
    fails,
    half_written_then_full,
    interrupted,
)
from patched_os import patch_os
from small_indexes import TORTURE, answers, files

import pcpq

pytestmark = pytest.mark.torture

FAULTS = [
    pytest.param("write", failing(errno.ENOSPC), id="write-ENOSPC"),
    pytest.param("write", failing(errno.EIO), id="write-EIO"),
    pytest.param("write", half_written_then_full, id="write-half"),
    pytest.param("write", interrupted, id="write-interrupted"),
    pytest.param("fsync", failing(errno.EIO), id="fsync-EIO"),
    pytest.param("fsync", failing(errno.ENOSPC), id="fsync-ENOSPC"),
    pytest.param("fsync", interrupted, id="fsync-interrupted"),
    pytest.param("open", failing(errno.ENOSPC), id="open-ENOSPC"),
    pytest.param("open", failing(errno.EIO), id="open-EIO"),
    pytest.param("open", failing(errno.EMFILE), id="open-EMFILE"),
    pytest.param("replace", failing(errno.ENOSPC), id="replace-ENOSPC"),
    pytest.param("replace", failing(errno.EIO), id="replace-EIO"),
]


def places(name):
    """Which calls fail: all, of many only some unless all were asked for."""
    return itertools.count(0, 1 if TORTURE or name != "write" else 7)


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_commit_that_fails_changes_nothing_and_may_be_tried_again(
    name, fault, before, tmp_path, monkeypatch, record_property
):
    old = answers(pcpq.open(before), IDS)
    struck = 0
    for at in places(name):
        path = tmp_path / str(at)
        shutil.copytree(before, path)
        reader = pcpq.open(path)
        with pcpq.open(path, mode="a") as writer:
            there = files(path)
            change(writer)
            new = answers(writer, IDS)
            assert new != old
            faulty = FaultyOs(name, at, fault)
            with monkeypatch.context() as patch:
                patch_os(patch, faulty)
                failed = fails(writer.commit, fault)
            if not faulty.struck:
                assert not failed
                break
            struck += 1
            assert answers(reader, IDS) == old
            if faulty.replaced:  # all of it was written: a reader may see it, and only as a whole
                assert answers(pcpq.open(path), IDS) == new
            else:
                assert failed
                assert answers(pcpq.open(path), IDS) == old
                assert files(path) == there
            assert answers(writer, IDS) == new
            if at % 2:  # the same writer tries again, with more
                new = commit_more(writer, path)
        another_writer_goes_on(path, old, new)
        reader.refresh()
        assert answers(reader, IDS) == new
        del reader
        shutil.rmtree(path)
    record_property("failing system calls", struck)
    assert struck >= {"replace": 1, "fsync": 4, "open": 5, "write": 4}[name]


@pytest.mark.parametrize("over", ["nothing", "an index"])
@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_save_that_fails_changes_nothing_and_may_be_tried_again(
    name, fault, over, before, other, tmp_path, monkeypatch, record_property
):
    old, new = answers(pcpq.open(before), IDS), answers(other, IDS)
    struck = 0
    for at in places(name):
        path = tmp_path / str(at)
        if over == "an index":
            shutil.copytree(before, path)
        there = files(path) if path.exists() else []
        faulty = FaultyOs(name, at, fault)
        with monkeypatch.context() as patch:
            patch_os(patch, faulty)
            failed = fails(lambda path=path: other.save(path), fault)
        if not faulty.struck:
            assert not failed
            break
        struck += 1
        if faulty.replaced:
            assert answers(pcpq.open(path), IDS) == new
        else:
            assert failed
            if over == "nothing":
                assert not path.exists()
            else:
                assert files(path) == there
                assert answers(pcpq.open(path), IDS) == old
                pcpq.open(path, mode="a").close()
        assert answers(other, IDS) == new
        if faulty.replaced:
            pcpq.open(path, mode="a").close()
        else:
            other.save(path)
        assert answers(pcpq.open(path), IDS) == new
        shutil.rmtree(path)
    record_property("failing system calls", struck)
    assert struck >= {"replace": 1, "fsync": 4, "open": 5, "write": 4}[name]
