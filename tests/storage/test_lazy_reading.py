"""Arrays are read, and checked, when they are first wanted."""

import copy
import json
import pickle
import threading

import numpy as np
import pytest
from small_indexes import N_LISTS, QUERIES, VECTORS, string_ids

import pcpq
from pcpq.store.tensors import Tensors

pytestmark = [pytest.mark.torture, pytest.mark.quick]


def flip_in(path, array, where=0):
    """Change a byte of an array in a file."""
    content = bytearray(path.read_bytes())
    length = int.from_bytes(content[:8], "little")
    start, stop = json.loads(content[8 : 8 + length])[array]["data_offsets"]
    content[8 + length + start + where % (stop - start)] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("array", ["codes", "kept", "units", "ids"])
def test_a_damaged_array_is_noticed_when_it_is_read_not_by_opening(array, saved):
    flip_in(next(saved.glob("segment-*")), array)
    index = pcpq.open(saved)
    assert len(index) == 300
    for _ in range(2):  # also the second time
        with pytest.raises(pcpq.FormatError, match=r"segment-\w+\.safetensors"):
            index.search(QUERIES, k=10, probes=N_LISTS, rerank=400)


def test_only_the_search_that_reads_a_damaged_list_fails(saved):
    index = pcpq.open(saved)
    nearest = index._state.snapshot.trained.partition.assign(VECTORS[:300])
    told = [index.search(VECTORS[row : row + 1], k=1, probes=1, rerank=1).ids[0, 0] for row in range(100)]
    index.close()
    flip_in(next(saved.glob("segment-*")), "codes", -1)  # belongs to the last list that is not empty
    index = pcpq.open(saved)
    failed = 0
    for row in range(100):
        if nearest[told[row]] == nearest.max():
            failed += 1
            with pytest.raises(pcpq.FormatError, match=f"list {nearest.max()} "):
                index.search(VECTORS[row : row + 1], k=1, probes=1, rerank=1)
        else:
            assert index.search(VECTORS[row : row + 1], k=1, probes=1, rerank=1).ids[0, 0] == told[row]
    assert 0 < failed < 100


def test_damaged_ids_are_noticed_before_they_are_looked_up(saved):
    flip_in(next(saved.glob("segment-*")), "ids", 8)
    index = pcpq.open(saved)
    for ask in (lambda: 5 in index, lambda: index.reconstruct([5]), lambda: index.search(QUERIES, filter=[5])):
        with pytest.raises(pcpq.FormatError, match="segment-"):
            ask()


@pytest.mark.parametrize("array", ["text", "text_ends", "text_hashes"])
def test_damaged_words_are_noticed_before_they_are_looked_up(array, fitted, tmp_path):
    index = copy.copy(fitted)
    index.add(VECTORS[:50], string_ids(range(50)))
    index.save(tmp_path / "index")
    flip_in(next((tmp_path / "index").glob("segment-*")), array, 9)
    opened = pcpq.open(tmp_path / "index")
    for ask in (lambda: string_ids([3])[0] in opened, lambda: "none" in opened, lambda: opened.search(QUERIES)):
        with pytest.raises(pcpq.FormatError, match="segment-"):
            ask()


def test_a_damaged_segment_is_not_compacted_into_a_sound_one(saved):
    flip_in(next(saved.glob("segment-*")), "kept", 77)
    with pcpq.open(saved, mode="a") as writer:
        writer.remove([0])
        with pytest.raises(pcpq.FormatError):
            writer.compact()
    with pytest.raises(pcpq.FormatError):
        pickle.dumps(pcpq.open(saved))


def test_two_threads_may_be_the_first_to_read_string_ids(fitted, tmp_path, monkeypatch):
    index = copy.copy(fitted)
    index.add(VECTORS, string_ids(range(400)))
    index.save(tmp_path / "index")
    opened = pcpq.open(tmp_path / "index")
    check, first_is_in, second_is_done, wrong = Tensors.check, threading.Event(), threading.Event(), []

    def check_slowly(self, name, expected):
        check(self, name, expected)
        if threading.current_thread() is first and not first_is_in.is_set():
            first_is_in.set()
            second_is_done.wait(2)  # less than for ever: the second may have to wait for the first

    def look():
        try:
            opened.verify()
            if string_ids([7])[0] not in opened:
                wrong.append("not found")
        except Exception as error:
            wrong.append(repr(error))

    monkeypatch.setattr(Tensors, "check", check_slowly)
    first = threading.Thread(target=look)
    first.start()
    assert first_is_in.wait(10)
    look()
    second_is_done.set()
    first.join()
    assert wrong == []


def test_threads_search_while_a_reader_refreshes(saved):
    reader, wrong, done = pcpq.open(saved), [], threading.Event()

    def search():
        while not done.is_set():
            try:
                found = reader.search(QUERIES, k=5, threads=1).ids
                if (found < 0).any():
                    wrong.append(found)
            except Exception as error:
                wrong.append(repr(error))

    thread = threading.Thread(target=search)
    thread.start()
    with pcpq.open(saved, mode="a") as writer:
        for step in range(25):
            writer.upsert(VECTORS[step : step + 3], np.arange(step, step + 3))
            writer.commit()
            assert reader.refresh()
    done.set()
    thread.join()
    assert wrong == []
