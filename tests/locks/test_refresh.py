"""Readers that refresh beside a writer."""

import copy
import threading

import pytest
from small_indexes import QUERIES, VECTORS, small_index

import pcpq

pytestmark = pytest.mark.torture


def test_refresh_sees_another_index_of_the_same_generation(saved, tmp_path):
    reader = pcpq.open(saved)
    other = small_index()
    other.add(VECTORS[:50])
    other.save(tmp_path / "other")
    saved.rename(tmp_path / "old")
    (tmp_path / "other").rename(saved)
    assert reader.refresh()
    assert len(reader) == 50
    assert not reader.refresh()


def test_an_interrupted_refresh_may_be_tried_again(saved, monkeypatch):
    reader = pcpq.open(saved)
    with pcpq.open(saved, mode="a") as writer:
        writer.remove([0])
        writer.commit()

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pcpq.Index, "_replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.refresh()
    assert reader.refresh()
    assert len(reader) == 299


def test_a_closed_reader_does_not_refresh(saved):
    reader = pcpq.open(saved)
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.refresh()


def test_searches_beside_a_refresh_to_ids_of_another_kind_are_of_one_kind(saved, tmp_path):
    texts = small_index()
    texts.add(VECTORS[:300], [f"w{number}" for number in range(300)])
    numbers, reader, failures, stop = pcpq.open(saved), pcpq.open(saved), [], threading.Event()
    copy.copy(numbers)

    def search():
        while not stop.is_set():
            try:
                kinds = {type(one) for one in reader.search(QUERIES, k=5).ids.ravel().tolist()}
                kinds |= {type(one) for one in reader.search(QUERIES[0], k=5).ids.tolist()}
                if not kinds <= {int, str}:
                    failures.append(kinds)
            except BaseException as error:
                failures.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    try:
        for step in range(30):
            (texts if step % 2 == 0 else numbers).save(saved)
            assert reader.refresh()
    finally:
        stop.set()
        thread.join()
    assert not failures
