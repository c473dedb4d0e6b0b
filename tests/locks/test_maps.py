"""Files that are cut or replaced under their maps, and verify."""

import copy
import json
import os
import shutil
import threading
import time

import numpy as np
import pytest
from small_indexes import QUERIES, VECTORS, another_process, answers, files, say

import pcpq
from pcpq.store import files as storage_files

pytestmark = pytest.mark.torture

IDS = range(0, 320, 7)


def test_a_file_that_was_cut_under_a_map_is_an_error_not_the_end_of_the_process(saved):
    code = """
import sys, pcpq
from pathlib import Path
index = pcpq.open(sys.argv[1])
index.search([1.0] * 8, k=3)
print("ready", flush=True)
for line in sys.stdin:
    try:
        index.search([1.0] * 8, k=3)
        print("found", flush=True)
    except pcpq.FormatError as error:
        print(error, flush=True)
"""
    segment = saved / files(saved, "segment-")[0]
    content = segment.read_bytes()
    with another_process(code, saved) as reader:
        assert reader.stdout.readline() == "ready\n"
        assert say(reader, "search") == "found"
        os.truncate(segment, 100)
        time.sleep(2 * storage_files.SIZES_EVERY)
        said = say(reader, "search")
        assert said.startswith(str(segment))
        assert f"has 100 bytes; it had {len(content)} when it was opened" in said
        segment.write_bytes(content)
        time.sleep(2 * storage_files.SIZES_EVERY)
        assert say(reader, "search") == "found"


def damaged(content):
    """One bit of the last byte that counts: files end with an array."""
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("kind", ["segment", "trained", "live", "attributes", "manifest"])
def test_verify_reads_again_what_was_looked_at_before(kind, tmp_path):
    path = tmp_path / "index"
    index = pcpq.build(VECTORS[:300], metric="dot", n_lists=3, attributes={"place": np.arange(300)})
    index.remove([4, 5])
    index.save(path)
    opened = pcpq.open(path)
    opened.search(QUERIES, k=5, where="place > 10")
    opened.verify()
    file = path / files(path, kind)[0]
    content = file.read_bytes()
    with file.open("r+b") as damaging:  # in place: a map sees it
        damaging.write(damaged(content) if kind != "manifest" else content.replace(b"dot", b"tod"))
    with pytest.raises(pcpq.FormatError, match=file.name):
        opened.verify()
    with file.open("r+b") as mending:
        mending.write(content)
    opened.verify()


def test_verify_names_a_file_that_was_replaced_or_removed(saved):
    opened = pcpq.open(saved)
    segment = saved / files(saved, "segment-")[0]
    content = segment.read_bytes()
    segment.unlink()
    with pytest.raises(pcpq.FormatError, match=f"{segment.name}: is missing"):
        opened.verify()
    segment.write_bytes(content)
    with pytest.raises(pcpq.FormatError, match=f"{segment.name}: was replaced after it was opened"):
        opened.verify()
    pcpq.open(saved).verify()


def test_a_copy_notices_a_file_that_was_cut_as_well(saved):
    reader = pcpq.open(saved)
    duplicate = copy.copy(reader)
    del reader
    expected = answers(duplicate, IDS)
    segment = saved / files(saved, "segment-")[0]
    content = segment.read_bytes()
    os.truncate(segment, 100)
    time.sleep(2 * storage_files.SIZES_EVERY)
    with pytest.raises(pcpq.FormatError, match="has 100 bytes"):
        duplicate.search(QUERIES)
    segment.write_bytes(content)
    time.sleep(2 * storage_files.SIZES_EVERY)
    assert answers(duplicate, IDS) == expected


def test_verify_looks_at_the_files_of_its_own_directory_not_at_links_to_them(saved, tmp_path):
    reader = pcpq.open(saved)
    reader.backup(tmp_path / "backup")
    backup = pcpq.open(tmp_path / "backup")
    name = files(saved, "segment-")[0]
    for directory, broken, sound in ((tmp_path / "backup", backup, reader), (saved, reader, None)):
        shutil.copy(directory / name, directory / "new")
        os.replace(directory / "new", directory / name)
        with pytest.raises(pcpq.FormatError, match=f"{directory / name}: was replaced"):
            broken.verify()
        if sound is not None:
            sound.verify()


def test_bytes_between_arrays_are_zeros(saved):
    for name in [*files(saved, "segment-"), *files(saved, "trained-")]:
        content = (saved / name).read_bytes()
        length = int.from_bytes(content[:8], "little")
        entries = json.loads(content[8 : 8 + length])
        padding = [entry["data_offsets"] for array, entry in entries.items() if array.startswith("padding.")]
        assert padding
        for start, stop in padding:
            for place in (start, stop - 1):
                at = 8 + length + place
                (saved / name).write_bytes(content[:at] + b"\1" + content[at + 1 :])
                with pytest.raises(pcpq.FormatError, match=r"padding\.\d+ is not all zeros"):
                    pcpq.open(saved)
        (saved / name).write_bytes(content)


def test_verify_and_backup_of_an_index_that_commits_meanwhile_are_of_one_generation(saved, tmp_path):
    writer, stop, failures = pcpq.open(saved, mode="a"), threading.Event(), []

    def commits():
        try:
            for step in range(10_000):
                writer.upsert(VECTORS[step % 300 : step % 300 + 1], [step % 10])
                writer.compact()
                writer.commit()
                if stop.is_set():
                    return
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=commits)
    thread.start()
    try:
        for step in range(30):
            writer.verify()
            writer.backup(tmp_path / f"backup{step}")
    finally:
        stop.set()
        thread.join()
    assert not failures


def test_two_indexes_of_a_process_share_their_maps(saved):
    first, second = pcpq.open(saved), pcpq.open(saved)
    paths = [saved / name for name in files(saved) if name.startswith(("segment-", "trained-"))]
    assert all(storage_files.already_mapped(path) is not None for path in paths)
    assert set(first._maps._paths) == set(second._maps._paths)
    expected = answers(first, IDS)
    first.close()
    assert answers(second, IDS) == expected
