"""What is opened answers as what was saved; what is no index is refused."""

import copy
import json
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file
from small_indexes import KEEPS, METRICS, QUERIES, TORTURE, VECTORS, answers, files, small_index, string_ids

import pcpq
from pcpq.store.state import State

pytestmark = [pytest.mark.torture, pytest.mark.quick]

QUANTIZERS = [
    quantizer.set_params(max_iterations=2)
    for quantizer in (
        pcpq.PQ(section_size=2),
        pcpq.PQ(section_size=4, n_centers=300, norm_scale=True),
        pcpq.APQ(section_size=3),
        pcpq.PCPQ(section_size=2),
        pcpq.APCPQ(section_size=2),
        pcpq.QPCPQ(section_size=2),
        pcpq.QPCPQ(section_size=4, n_centers=40, scales_per="vector"),
        pcpq.QPCPQ(section_size=4, n_centers=100, n_scales=20),
        pcpq.QAPCPQ(section_size=2),
        pcpq.PQ(section_size=3, n_centers=64),
        pcpq.QPCPQ(section_size=2, n_centers=20, n_scales=3),
    )
]


# Save and open


# Codebooks of lists with every metric in the full form only.
COMBINATIONS = [
    pytest.param(quantizer, metric, codebooks, id=f"{type(quantizer).__name__}-{number}-{metric}-{codebooks}")
    for number, quantizer in enumerate(QUANTIZERS)
    for place, metric in enumerate(METRICS)
    for codebooks in ("shared", "per_list")
    if TORTURE or codebooks == "shared" or place == number % len(METRICS)
]


@pytest.mark.parametrize(("quantizer", "metric", "codebooks"), COMBINATIONS)
def test_an_opened_index_answers_bit_for_bit_as_the_saved_one(quantizer, metric, codebooks, tmp_path):
    base = small_index(metric=metric, codebooks=codebooks, quantizer=quantizer)
    first = QUANTIZERS.index(quantizer) + METRICS.index(metric)
    for keep in KEEPS if TORTURE else [KEEPS[(first + further) % len(KEEPS)] for further in (0, 2, 3)]:
        index = copy.copy(base)
        index._config = replace(base.config, keep=keep)
        index._state = State(replace(base._state.snapshot.trained, keep=keep))
        index.add(VECTORS[:300])
        index.add(VECTORS[300:320])  # so few that lists share blocks
        index.remove(np.arange(0, 300, 7))
        path = tmp_path / str(keep)
        index.save(path)
        opened = pcpq.open(path)
        assert answers(opened, range(0, 330, 11)) == answers(index, range(0, 330, 11))
        assert (opened.metric, opened.keep, opened.codebooks) == (metric, keep, codebooks)
        assert opened.stats() == index.stats()
        assert opened.quantizer.get_params() == quantizer.get_params()


@pytest.mark.parametrize("rotation", ["random", "learned"])
@pytest.mark.parametrize("keep", [None, "int16"])
def test_a_rotated_index_answers_as_before(rotation, keep, tmp_path):
    index = small_index(rotation=rotation, keep=keep)
    index.add(VECTORS)
    index.save(tmp_path / "index")
    opened = pcpq.open(tmp_path / "index")
    assert opened.rotation == rotation
    assert answers(opened, range(400)) == answers(index, range(400))


@pytest.mark.parametrize("kind", ["int", "str"])
def test_ids_of_both_kinds_removals_and_many_segments_survive(kind, fitted, tmp_path):
    index = copy.copy(fitted)
    ids = np.random.default_rng(3).permutation(10_000)[:400]
    ids = ids.tolist() if kind == "int" else string_ids(ids)
    for start, stop in ((0, 330), (330, 380), (380, 400)):
        index.add(VECTORS[start:stop], ids[start:stop])
    index.remove(ids[5:60:3] + ids[395:])
    assert index.stats()["segments"] > 1
    assert index.stats()["removed"] > 0
    index.save(tmp_path / "index")
    opened = pcpq.open(tmp_path / "index")
    assert answers(opened, ids) == answers(index, ids)
    assert (
        opened.search(QUERIES, filter=ids[:100]).ids.tolist()
        == index.search(QUERIES, filter=ids[:100]).ids.tolist()
    )
    with pcpq.open(tmp_path / "index", mode="a") as writer:
        writer.compact()
        writer.commit()
        assert writer.stats()["segments"] == 1
        assert {one for one in ids if one in writer} == {one for one in ids if one in index}
        with pytest.raises(ValueError, match="already"):
            writer.add(VECTORS[:1], ids[:1])
    assert np.array_equal(pcpq.open(tmp_path / "index").reconstruct(ids[:4]), index.reconstruct(ids[:4]))


def test_small_segments_have_lists_that_share_blocks_and_large_ones_have_not(saved):
    with pcpq.open(saved, mode="a") as index:
        index.add(VECTORS[300:310])
        index.commit()
    dense = []
    for name in files(saved, "segment-"):
        with safe_open(saved / name, "numpy") as file:
            dense.append(json.loads(file.metadata()["pcpq"])["dense"])
    assert sorted(dense) == [False, True]


def test_a_fitted_index_without_vectors_is_saved_as_well(fitted, tmp_path):
    fitted.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as index:
        assert len(index) == 0
        assert (index.search(QUERIES).ids == -1).all()
        index.add(VECTORS[:50])
        index.commit()
    assert len(pcpq.open(tmp_path / "index")) == 50


def test_an_index_that_is_not_fitted_is_not_saved_and_nothing_there_is_harmed(saved, tmp_path):
    for path in (saved, tmp_path / "new"):
        with pytest.raises(pcpq.NotFittedError):
            pcpq.Index(metric="dot").save(path)
    assert len(pcpq.open(saved)) == 300
    pcpq.open(saved, mode="a").close()


def test_every_file_is_a_safetensors_file_with_arrays_at_64_bytes(saved):
    with pcpq.open(saved, mode="a") as index:
        index.remove([3, 4])
        index.commit()
    names = [name for name in files(saved) if name.endswith(".safetensors")]
    assert sorted(name.split("-")[0] for name in names) == ["live", "segment", "trained"]
    for name in names:
        arrays = load_file(saved / name)
        assert arrays
        with safe_open(saved / name, "numpy") as file:
            assert file.metadata()
        content = (saved / name).read_bytes()
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        assert (8 + length) % 64 == 0
        starts = {one: entry["data_offsets"][0] for one, entry in header.items() if one in arrays}
        assert all(start % 64 == 0 for one, start in starts.items() if not one.startswith("padding."))
    segment = load_file(next(saved.glob("segment-*")))
    assert sorted(segment["ids"]) == list(range(300))
    assert segment["kept"].dtype == np.int16


def test_no_file_is_a_pickle_and_the_package_never_reads_one(saved):
    for path in saved.iterdir():
        assert path.read_bytes()[:1] != b"\x80", path
        with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, KeyError, IndexError)):
            pickle.loads(path.read_bytes())
    storage = os.path.dirname(pcpq.store.__file__)
    for name in os.listdir(storage):
        if name.endswith(".py"):
            with open(os.path.join(storage, name)) as file:
                text = file.read()
            assert not any(
                word in text for word in ("import pickle", "pickle.", "marshal", "np.load", "eval(", "exec(")
            ), name


# Opening what is no index


@pytest.mark.parametrize("mode", ["r", "a"])
def test_what_is_not_there_is_named(mode, tmp_path):
    with pytest.raises(FileNotFoundError, match="missing does not exist"):
        pcpq.open(tmp_path / "missing", mode=mode)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty is not an index"):
        pcpq.open(tmp_path / "empty", mode=mode)
    (tmp_path / "file").write_text("no index")
    with pytest.raises(pcpq.FormatError, match="file: is not a directory"):
        pcpq.open(tmp_path / "file", mode=mode)
    assert files(tmp_path / "empty") == []
    assert files(tmp_path) == ["empty", "file"]


def test_an_unknown_mode_is_named(saved):
    with pytest.raises(ValueError, match="mode is 'w'"):
        pcpq.open(saved, mode="w")


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": 3}, ["version 3", "versions 1 and 2"]),
        ({"version": "1"}, ["version '1'", "versions 1 and 2"]),
        ({"format": "faiss"}, ["'faiss'", "'pcpq'"]),
        ({"format": None}, ["None", "'pcpq'"]),
    ],
)
def test_newer_versions_and_foreign_formats_are_named_beside_what_is_read(change, named, mode, saved):
    content = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps(content | change))
    with pytest.raises(pcpq.FormatError) as raised:
        pcpq.open(saved, mode=mode)
    assert all(name in str(raised.value) for name in [*named, "manifest.json"])
