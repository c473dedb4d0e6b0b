"""A backup is an index of one generation, by links or copies, while searches and commits go on."""

import errno
import os
import shutil
import threading

import numpy as np
import pytest
from patched_os import patch_os
from small_indexes import VECTORS, answers, files, small_index

import pcpq
from pcpq.store import backup as storage_backup
from pcpq.util import durable_files

pytestmark = pytest.mark.torture

IDS = range(0, 420, 9)


@pytest.fixture
def saved(tmp_path):
    index = small_index()
    index.add(VECTORS[:300], attributes={"place": np.arange(300)})
    index.remove([9, 10])
    index.save(tmp_path / "index")
    return tmp_path / "index"


def inodes(path):
    return {name: (path / name).stat().st_ino for name in files(path) if name not in ("lock", "manifest.json")}


@pytest.mark.parametrize("copy", [False, True], ids=["links", "copies"])
def test_a_backup_answers_as_the_index_and_goes_its_own_way(copy, saved, tmp_path):
    opened = pcpq.open(saved)
    expected = answers(opened, IDS)
    opened.backup(tmp_path / "deep" / "backup", copy=copy)
    backup = tmp_path / "deep" / "backup"
    assert inodes(backup).keys() == inodes(saved).keys()
    assert (inodes(backup) == inodes(saved)) is not copy
    for changed, other in ((saved, backup), (backup, saved)):
        with pcpq.open(changed, mode="a") as writer:
            writer.add(VECTORS[300:310], np.arange(500, 510))
            writer.compact()
            writer.commit()
        with pcpq.open(other) as reader:
            reader.verify()
            if changed is saved:
                assert answers(reader, IDS) == expected
                assert reader.get([11])["place"].to_pylist() == [11]
    shutil.rmtree(saved)
    pcpq.open(backup).verify()


@pytest.mark.parametrize(
    "number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP], ids=errno.errorcode.get
)
def test_files_are_copied_where_they_cannot_be_linked(number, saved, tmp_path, monkeypatch):
    class NoLinks:
        def __getattr__(self, name):
            return getattr(os, name)

        def link(self, *arguments, **named):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(storage_backup, "os", NoLinks())
    pcpq.open(saved).backup(tmp_path / "backup")
    assert not set(inodes(saved).values()) & set(inodes(tmp_path / "backup").values())
    pcpq.open(tmp_path / "backup").verify()


def test_a_writer_backs_up_what_it_committed(saved, tmp_path):
    with pcpq.open(saved, mode="a") as writer:
        writer.add(VECTORS[300:310], np.arange(500, 510))
        writer.backup(tmp_path / "before")
        writer.commit()
        writer.backup(tmp_path / "after")
    assert 505 not in pcpq.open(tmp_path / "before")
    assert 505 in pcpq.open(tmp_path / "after")


def test_an_older_generation_is_backed_up_by_a_reader_that_has_it_open(saved, tmp_path):
    reader = pcpq.open(saved)
    expected = answers(reader, IDS)
    with pcpq.open(saved, mode="a") as writer:
        for step in range(3):
            writer.upsert(VECTORS[step : step + 1], [step])
            writer.compact()
            writer.commit()
    reader.backup(tmp_path / "backup")
    assert answers(pcpq.open(tmp_path / "backup"), IDS) == expected


def test_backups_beside_a_writer_in_a_hurry_are_all_whole(saved, tmp_path):
    stop, failures = threading.Event(), []

    def write():
        try:
            with pcpq.open(saved, mode="a") as writer:
                step = 0
                while not stop.is_set():
                    writer.upsert(np.full((2, 8), step % 50 + 1, np.float32), [1000, 1001])
                    writer.compact()
                    writer.commit()
                    step += 1
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for step in range(40):
            backup = tmp_path / f"backup{step}"
            pcpq.open(saved).backup(backup)
            with pcpq.open(backup) as index:
                index.verify()
                if 1000 in index:
                    pair = index.reconstruct([1000, 1001])
                    assert np.array_equal(pair[0], pair[1])
    finally:
        stop.set()
        writer.join()
    assert not failures


def test_a_backup_is_never_written_over_anything(saved, tmp_path):
    opened = pcpq.open(saved)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    opened.backup(tmp_path / "backup")
    for target, error, named in (
        ("backup", FileExistsError, "is an index already"),
        ("full", FileExistsError, "letter.txt"),
        ("file", FileExistsError, "file"),
        ("index", ValueError, "the index itself"),
    ):
        before = answers(pcpq.open(saved), IDS)
        with pytest.raises(error, match=named):
            opened.backup(tmp_path / target)
        assert answers(pcpq.open(saved), IDS) == before
    assert (tmp_path / "full" / "letter.txt").read_text() == "mine"
    with pytest.raises(ValueError, match="in memory only"):
        small_index().backup(tmp_path / "other")


def test_a_backup_that_fails_leaves_nothing(saved, tmp_path, monkeypatch):
    class FullDisk:
        def __init__(self, left):
            self.left = left

        def __getattr__(self, name):
            return getattr(os, name)

        def write(self, descriptor, content):
            if self.left < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.left -= len(content)
            return os.write(descriptor, content)

    opened = pcpq.open(saved)
    for left in (0, 2000, 12000):
        with monkeypatch.context() as patch:
            patch_os(patch, FullDisk(left))
            with pytest.raises(OSError, match="No space left"):
                opened.backup(tmp_path / "backup", copy=True)
        assert not (tmp_path / "backup").exists()
    opened.backup(tmp_path / "backup", copy=True)


def test_a_damaged_index_is_not_backed_up_as_if_it_were_sound(saved, tmp_path):
    segment = saved / files(saved, "segment-")[0]
    opened = pcpq.open(saved)
    segment.unlink()
    with pytest.raises(pcpq.FormatError, match=f"{segment.name}: is missing"):
        opened.backup(tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_backup_of_damaged_files_leaves_nothing(saved, tmp_path):
    opened = pcpq.open(saved)
    segment = saved / files(saved, "segment-")[0]
    with segment.open("r+b") as file:
        file.seek(20)
        file.write(b"@")
    for copy in (False, True):
        with pytest.raises(pcpq.FormatError, match=segment.name):
            opened.backup(tmp_path / "backup", copy=copy)
        assert not (tmp_path / "backup").exists()


def test_a_backup_that_was_interrupted_at_its_end_says_that_it_is_there(saved, tmp_path, monkeypatch):
    opened = pcpq.open(saved)

    def replace_and_stop(path, new):
        durable_files.replace_file(path, new)
        raise KeyboardInterrupt

    monkeypatch.setattr(storage_backup, "replace_file", replace_and_stop)
    with pytest.raises(KeyboardInterrupt) as raised:
        opened.backup(tmp_path / "backup")
    assert raised.value.__notes__ == [f"the backup {tmp_path / 'backup'} is complete"]
    pcpq.open(tmp_path / "backup").verify()
