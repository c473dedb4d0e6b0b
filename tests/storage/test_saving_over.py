"""Saving over an index, and over files that are none."""

import pytest
from small_indexes import N_LISTS, VECTORS, answers, files, some_vectors

import pcpq

pytestmark = [pytest.mark.torture, pytest.mark.quick]


def test_saving_over_an_index_replaces_it(saved):
    other = pcpq.build(some_vectors(90, seed=5), metric="euclidean", n_lists=2, keep="float32")
    other.save(saved)
    opened = pcpq.open(saved)
    assert (opened.metric, opened.keep, len(opened)) == ("euclidean", "float32", 90)
    assert answers(opened, range(90)) == answers(other, range(90))
    assert len(files(saved, "segment-")) == len(files(saved, "trained-")) == 1


def test_an_index_saved_twice_in_the_same_place_is_there_as_it_was_last(saved, tmp_path):
    index = pcpq.build(VECTORS[:300], metric="dot", n_lists=N_LISTS)
    path = tmp_path / "twice"
    for extra in (0, 60, 10):
        if extra:
            index.add(some_vectors(extra, seed=extra))
        index.save(path)
        assert answers(pcpq.open(path), range(400)) == answers(index, range(400))
    index.save(path)
    assert answers(pcpq.open(path), range(400)) == answers(index, range(400))


def test_a_reader_saved_onto_its_own_directory_changes_nothing(saved):
    reader = pcpq.open(saved)
    before = answers(reader, range(310))
    reader.save(saved)
    assert answers(reader, range(310)) == before
    assert answers(pcpq.open(saved), range(310)) == before


def test_an_opened_index_is_saved_elsewhere_whole(saved, tmp_path):
    with pcpq.open(saved, mode="a") as index:
        index.add(VECTORS[300:])
        index.remove([1])
        index.save(tmp_path / "copy")
        assert len(pcpq.open(saved)) == 300  # not committed
        assert answers(pcpq.open(tmp_path / "copy"), range(400)) == answers(index, range(400))
        index.commit()
        assert len(pcpq.open(saved)) == 399


def test_a_directory_with_foreign_files_is_refused_and_left_as_it_was(fitted, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"notes\.txt"):
        fitted.save(tmp_path)
    assert files(tmp_path) == ["notes.txt"]
    (tmp_path / "notes.txt").unlink()
    fitted.save(tmp_path)
    assert len(pcpq.open(tmp_path)) == 0


def test_foreign_files_beside_an_index_stay_when_it_is_replaced_or_tidied(saved, fitted):
    (saved / "notes.txt").write_text("mine")
    (saved / "segment-1.safetensors").write_text("not a name of ours")
    fitted.save(saved)
    with pcpq.open(saved, mode="a") as index:
        index.add(VECTORS[:5])
        index.commit()
    assert (saved / "notes.txt").read_text() == "mine"
    assert (saved / "segment-1.safetensors").exists()


def test_saving_where_a_file_is_is_an_error(fitted, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file"):
        fitted.save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_saving_over_a_damaged_manifest_is_refused_and_leaves_no_lock(saved, fitted):
    (saved / "manifest.json").write_text("{")
    for _ in range(2):
        with pytest.raises(pcpq.FormatError, match=r"manifest\.json"):
            fitted.save(saved)
