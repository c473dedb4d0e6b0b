"""Every value that is accepted, at its limits, survives save and open; what would not is refused before."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from small_indexes import VECTORS, D, answers

import pcpq
from pcpq.store import manifest as manifests
from pcpq.store import tensors
from pcpq.store.manifest import MANIFEST, check_of

LARGEST = 2**63 - 1
IDS_AT_LIMITS = [0, 2**31, 2**53 + 1, 2**62 - 2, 2**62 - 1, 2**62, LARGEST - 1, LARGEST]


def build(ids=None, **parameters):
    settings = {"metric": "dot", "n_lists": 3} | parameters
    return pcpq.build(VECTORS[:50], ids, **settings)


@pytest.mark.parametrize("largest", IDS_AT_LIMITS)
def test_an_index_with_a_large_id_is_saved_opened_and_written_on(largest, tmp_path):
    ids = np.unique([*range(1, 50), largest])[:50].tolist()
    index = pcpq.build(VECTORS[: len(ids)], ids, metric="dot", n_lists=3)
    expected = answers(index, [largest])
    for _ in range(2):  # over itself too
        index.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as opened:
        assert answers(opened, [largest]) == expected
        assert largest in opened
        if largest < LARGEST:
            assert opened.add(VECTORS[50:51]).tolist() == [max(ids) + 1]
        else:
            with pytest.raises(ValueError, match=f"no integer ids are left after {LARGEST}"):
                opened.add(VECTORS[50:51])
        opened.upsert(VECTORS[51:52], [largest])
        opened.commit()
    with pcpq.open(tmp_path / "index") as opened:
        opened.verify()
        assert np.allclose(opened.reconstruct([largest]), VECTORS[51], atol=1e-3)


def test_numbers_are_counted_up_to_the_last(tmp_path):
    index = build()
    index.add(VECTORS[50:51], [LARGEST - 3])
    assert index.add(VECTORS[51:54]).tolist() == [LARGEST - 2, LARGEST - 1, LARGEST]
    with pytest.raises(ValueError, match="no integer ids are left"):
        index.add(VECTORS[54:55])
    index.save(tmp_path / "index")
    assert LARGEST in pcpq.open(tmp_path / "index")


@pytest.mark.parametrize("too_large", [[2**63], np.array([2**63], np.uint64), [-1], [2**64]])
def test_an_id_that_is_no_id_is_refused_when_it_is_added(too_large):
    with pytest.raises(ValueError, match="id"):
        build().add(VECTORS[50:51], too_large)


def test_version_2_is_written_only_where_version_1_cannot_say_it(tmp_path):
    index = build()
    index.save(tmp_path / "index")
    assert json.loads((tmp_path / "index" / MANIFEST).read_text())["version"] == 1
    index.add(VECTORS[50:51], [2**62 - 2])
    index.save(tmp_path / "index")
    assert json.loads((tmp_path / "index" / MANIFEST).read_text())["version"] == 1
    index.add(VECTORS[51:52], [2**62 - 1])
    index.save(tmp_path / "index")
    assert json.loads((tmp_path / "index" / MANIFEST).read_text())["version"] == 2


def test_what_an_earlier_release_wrote_and_could_not_open_is_opened(tmp_path):
    index = build(2**62 - 1 + np.arange(50))
    index.save(tmp_path / "index")
    manifest = tmp_path / "index" / MANIFEST
    content = json.loads(manifest.read_text()) | {"version": 1}
    content.pop("check")
    manifest.write_text(json.dumps(content | {"check": check_of(content)}))
    with pcpq.open(tmp_path / "index", mode="a") as opened:
        assert 2**62 in opened
        opened.commit()


@pytest.mark.parametrize("metric", ["dot", "cosine", "euclidean"])
def test_words_at_their_limits_survive(metric, tmp_path):
    strange = ["", "\0", "a\0", "\ud800", "x" * 100_000, "é" * 3, "\U0010ffff", " ", "\n"]
    index = pcpq.build(VECTORS[: len(strange)], strange, metric=metric)
    index.save(tmp_path / "index")
    opened = pcpq.open(tmp_path / "index")
    opened.verify()
    assert all(word in opened for word in strange)
    found = opened.search(VECTORS[: len(strange)], k=len(strange)).ids
    assert set(found[0]) == set(strange)


class Own(pcpq.PQ):
    """A quantizer that is not part of pcpq."""


class PQ(pcpq.PQ):
    """A quantizer with the name of one of pcpq."""


@pytest.mark.parametrize("kind", [Own, PQ])
def test_a_subclass_of_a_quantizer_is_refused_before_anything_is_built(kind):
    with pytest.raises(ValueError, match=f"quantizer is of class {kind.__name__}; expected one of PQ, APQ"):
        build(quantizer=kind(section_size=2))
    index = build(quantizer=pcpq.PQ(section_size=2))
    with pytest.raises(AttributeError):
        index.quantizer = kind(section_size=2)
    with pytest.raises(ValueError, match=kind.__name__):
        replace(index.config, quantizer=kind(section_size=2))


@pytest.mark.parametrize(
    "parameters",
    [
        {"seed": LARGEST},
        {"seed": np.int64(3), "n_lists": np.int32(2)},
        {"n_lists": 50},
        {"n_lists": 1},
        {"quantizer": pcpq.PQ(section_size=D, n_centers=50, seed=LARGEST)},
        {"quantizer": pcpq.PQ(section_size=np.int64(1), n_centers=np.int16(16), seed=np.uint32(1))},
        {"quantizer": pcpq.QAPCPQ(section_size=2, threshold=np.float32(0.5), n_scales=256, n_centers=40)},
        {"quantizer": pcpq.APQ(section_size=2, threshold=999_999.0, max_iterations=1)},
        {"quantizer": pcpq.APQ(section_size=2, threshold=0)},
        {"quantizer": pcpq.PQ(section_size=4, n_centers=4, init=np.ones((2, 4, 4)), max_iterations=0)},
        {"quantizer": pcpq.QPCPQ(section_size=2, paper=True, threads=2, max_iterations=1)},
    ],
    ids=repr,
)
def test_parameters_at_their_limits_survive(parameters, tmp_path):
    index = build(**parameters)
    index.save(tmp_path / "index")
    opened = pcpq.open(tmp_path / "index")
    opened.verify()
    assert answers(opened, range(50)) == answers(index, range(50))
    for name in ("metric", "n_lists", "seed", "keep"):
        assert getattr(opened, name) == getattr(index, name)
    if index.quantizer is not None:
        before, after = index.quantizer.get_params(), opened.quantizer.get_params()
        assert before.keys() == after.keys()
        for name, value in before.items():
            assert np.array_equal(after[name], value), name


def raw(kind, value, dtype):
    """Values of an Arrow type that Arrow itself would not make."""
    return pa.Array.from_buffers(kind, 50, [None, pa.py_buffer(np.full(50, value, dtype).tobytes())])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"\xff"] * 50).view(pa.string()),
        raw(pa.time32("s"), 10**8, "<i4"),
        raw(pa.date64(), 12345, "<i8"),
        pa.DictionaryArray.from_arrays(pa.array([9] * 50, pa.int32()), pa.array(["x"]), safe=False),
    ],
    ids=["text that is not UTF-8", "time beyond a day", "part of a day", "dictionary index"],
)
def test_attributes_that_could_not_be_read_again_are_refused_when_they_are_added(column):
    with pytest.raises(ValueError, match="attributes hold values that their types do not allow"):
        build(attributes=pa.table({"a": column}))


def test_a_manifest_that_could_not_be_read_again_takes_the_place_of_none(tmp_path, monkeypatch):
    index = build()
    index.save(tmp_path / "index")
    before = (tmp_path / "index" / MANIFEST).read_bytes()
    for limit, change in (("MOST_TEXT", 1000), ("LARGEST_NUMBER", 1)):
        with pcpq.open(tmp_path / "index", mode="a") as writer:
            writer.remove([3])
            with monkeypatch.context() as patch:
                patch.setattr(manifests, limit, change)
                patch.setattr(manifests.whole, "__defaults__", (change,))
                with pytest.raises(ValueError, match="cannot be stored"):
                    writer.commit()
        assert (tmp_path / "index" / MANIFEST).read_bytes() == before
    assert 3 in pcpq.open(tmp_path / "index")


def test_a_header_that_could_not_be_read_again_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tensors, "MOST_TEXT", 100)
    with pytest.raises(ValueError, match="cannot be stored: a header has"):
        build().save(tmp_path / "index")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("name", [b"\xff\xfe", "naïve 索引".encode(), b"a\\b", b" ", b"x" * 255])
def test_an_index_may_be_at_any_path(name, tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    build().save(path)
    with pcpq.open(path, mode="a") as index:
        index.remove([1])
        index.commit()
        index.verify()
        index.backup(path.parent / "backup")
    assert len(pcpq.open(path.parent / "backup")) == 49


def test_an_index_stays_where_it_is_when_the_program_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build().save("index")
    with pcpq.open("index", mode="a") as writer, pcpq.open("index") as reader:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        writer.remove([1])
        writer.commit()
        assert reader.refresh()
        assert len(reader) == 49
