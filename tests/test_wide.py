"""Codes of six bits: they answer as other forms of the same codes, and old indexes keep the codes they have."""

import copy
import json
import shutil
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from forging import forge, forge_manifest
from reference import exact, recall
from small_indexes import (
    METRICS,
    QUERIES,
    VECTORS,
    answers,
    check_a_stored_index_that_changes,
    small_index,
)

import pcpq
import pcpq.segment.codebooks
from pcpq.segment.codebooks import Codebooks
from pcpq.store.manifest import MANIFEST, read_manifest
from pcpq.store.state import State

pytestmark = [pytest.mark.kernels, pytest.mark.portable]

FAST = {"max_iterations": 2, "gain": False, "bias": False}
QUANTIZERS = {
    "PQ 3/64": pcpq.PQ(section_size=3, n_centers=64, **FAST),
    "PQ 2/17": pcpq.PQ(section_size=2, n_centers=17, **FAST),
    "APQ 3/40": pcpq.APQ(section_size=3, n_centers=40, **FAST),
    "QPCPQ 3/16/4": pcpq.QPCPQ(section_size=3, n_centers=16, n_scales=4, **FAST),
    "QPCPQ 3/8/8": pcpq.QPCPQ(section_size=3, n_centers=8, n_scales=8, **FAST),
    "QPCPQ 3/64/1": pcpq.QPCPQ(section_size=3, n_centers=64, n_scales=1, **FAST),
    "QAPCPQ 2/20/3": pcpq.QAPCPQ(section_size=2, n_centers=20, n_scales=3, **FAST),
}
EVERYTHING = {"k": 10, "probes": 3, "rerank": len(VECTORS)}


def coding_of(index):
    return index._state.snapshot.trained.codebooks.coding


@cache
def trained_once(name, metric, codebooks):
    return small_index(quantizer=QUANTIZERS[name], metric=metric, codebooks=codebooks, keep=None)


def fitted(name, metric, codebooks):
    """An index without vectors, trained once for all SIMD levels."""
    return copy.copy(trained_once(name, metric, codebooks))


def with_other_codes(index):
    """The same training, with codes as they were before there were wide ones."""
    trained, other = index._state.snapshot.trained, copy.copy(index)
    other._state = State(replace(trained, codebooks=Codebooks(trained.codebooks.quantizers)))
    return other


@pytest.mark.parametrize(
    ("quantizer", "coding"),
    [
        (pcpq.PQ(section_size=4, n_centers=16), "plain"),
        (pcpq.PQ(section_size=4, n_centers=17), "wide"),
        (pcpq.PQ(section_size=4, n_centers=64), "wide"),
        (pcpq.PQ(section_size=4, n_centers=65), "unpacked"),
        (pcpq.PQ(section_size=4, n_centers=32, norm_scale=True), "unpacked"),
        (pcpq.PCPQ(section_size=4, n_centers=32), "unpacked"),
        (pcpq.QPCPQ(section_size=4, n_centers=32, scales_per="vector"), "unpacked"),
        (pcpq.QPCPQ(section_size=4, n_centers=4, n_scales=4), "scaled"),
        (pcpq.QPCPQ(section_size=4, n_centers=16, n_scales=4), "wide"),
        (pcpq.QPCPQ(section_size=4, n_centers=16, n_scales=5), "scaled"),
        (pcpq.QPCPQ(section_size=4, n_centers=32, n_scales=2), "wide"),
        (pcpq.QPCPQ(section_size=4, n_centers=32, n_scales=3), "unpacked"),
    ],
    ids=repr,
)
def test_codes_are_wide_if_a_codeword_and_its_scale_fit_six_bits(quantizer, coding):
    assert coding_of(small_index(quantizer=quantizer.set_params(max_iterations=1))) == coding


@pytest.mark.parametrize("codebooks", ["shared", "per_list"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", QUANTIZERS)
def test_wide_codes_answer_as_other_forms_of_the_same_codes(name, metric, codebooks, simd_level):
    index = fitted(name, metric, codebooks)
    other = with_other_codes(index)
    assert coding_of(index) == "wide"
    assert coding_of(other) in ("scaled", "unpacked")
    index.add(VECTORS)
    other.add(VECTORS)
    every = np.arange(len(VECTORS))
    assert np.array_equal(index.reconstruct(every), other.reconstruct(every))
    found, expected = index.search(QUERIES, **EVERYTHING), other.search(QUERIES, **EVERYTHING)
    assert np.allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-4)
    # The small integers of the scan alone choose nearly the same rows.
    scanned = index.search(QUERIES, **EVERYTHING | {"rerank": 10})
    assert recall(scanned.ids, found.ids) > 0.8


@pytest.mark.parametrize("parts", [[400], [60, 300, 40], [10] * 4], ids=["one", "three", "dense"])
def test_filters_and_tombstones_leave_what_brute_force_finds(parts, simd_level):
    index = small_index(quantizer=QUANTIZERS["PQ 3/64"], keep="float32")
    for first, count in zip(np.cumsum([0, *parts]), parts, strict=False):
        index.add(VECTORS[first : first + count])
    n = sum(parts)
    gone = np.arange(0, n, 7)
    index.remove(gone)
    left = np.setdiff1d(np.arange(n), gone)
    _, rows = exact(VECTORS[left], QUERIES, "dot", 10)
    assert np.array_equal(index.search(QUERIES, **EVERYTHING).ids, left[rows])
    allowed = left[left % 3 == 1]
    _, rows = exact(VECTORS[allowed], QUERIES, "dot", 10)
    for options in (EVERYTHING, {"k": 10}):
        found = index.search(QUERIES, filter=allowed, **options).ids
        assert np.array_equal(found[:, : rows.shape[1]], allowed[rows])
    index.compact()
    _, rows = exact(VECTORS[left], QUERIES, "dot", 10)
    assert np.array_equal(index.search(QUERIES, **EVERYTHING).ids, left[rows])


# Storage


@pytest.fixture
def stored(tmp_path):
    """A stored index of wide codes."""
    index = small_index(quantizer=QUANTIZERS["PQ 3/64"])
    index.add(VECTORS)
    index.save(tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize("name", QUANTIZERS)
def test_a_stored_index_of_wide_codes_is_changed_and_opened_again(name, tmp_path):
    def check(opened):
        assert coding_of(opened) == "wide"

    check_a_stored_index_that_changes(tmp_path / "index", check, quantizer=QUANTIZERS[name])


@pytest.mark.parametrize(
    ("name", "coding"), [("PQ 3/64", "unpacked"), ("QPCPQ 3/16/4", "scaled"), ("QPCPQ 3/64/1", "unpacked")]
)
def test_an_index_from_before_wide_codes_keeps_its_codes_until_it_is_refitted(
    name, coding, tmp_path, monkeypatch
):
    with monkeypatch.context() as before:
        before.setattr(pcpq.segment.codebooks, "fits_wide", lambda *_: False)
        index = small_index(quantizer=QUANTIZERS[name])
        index.add(VECTORS[:300])
        index.save(tmp_path / "index")
    content = json.loads((tmp_path / "index" / MANIFEST).read_text())
    assert content["version"] == 1
    assert "wide" not in content
    with pcpq.open(tmp_path / "index", mode="a") as opened:
        opened.verify()
        assert answers(opened, range(300)) == answers(index, range(300))
        opened.add(VECTORS[300:])
        opened.compact()
        opened.commit()
        assert coding_of(opened) == coding
        assert read_manifest(tmp_path / "index").version == 1
        found = opened.search(QUERIES, exact=True).ids
        opened.refit().result(timeout=60)
        opened.commit()
        assert coding_of(opened) == "wide"
        assert np.array_equal(opened.search(QUERIES, exact=True).ids, found)
    assert read_manifest(tmp_path / "index").version == 2
    with pcpq.open(tmp_path / "index") as opened:
        opened.verify()
        assert coding_of(opened) == "wide"


def test_a_manifest_that_differs_from_the_trained_file_is_refused(stored, tmp_path):
    shutil.copytree(stored, tmp_path / "silent")
    forge_manifest(tmp_path / "silent", lambda content: content.pop("wide") and None)
    with pytest.raises(
        pcpq.FormatError, match=r"manifest.json: codes are not wide; in trained-.* codes are wide"
    ):
        pcpq.open(tmp_path / "silent")
    forge(stored, "trained", edit_about=lambda about: about.pop("wide") and None)
    with pytest.raises(
        pcpq.FormatError, match=r"manifest.json: codes are wide; in trained-.* codes are not wide"
    ):
        pcpq.open(stored)


@pytest.mark.parametrize("change", [{"version": 1}, {"wide": 1}, {"wide": "yes"}, {"wide": None}])
def test_a_manifest_of_version_1_or_without_a_boolean_is_refused(change, stored):
    forge_manifest(stored, lambda content: content | change)
    with pytest.raises(pcpq.FormatError, match=r"manifest.json: wide is "):
        pcpq.open(stored)


@pytest.mark.parametrize("n_centers", [16, 65])
def test_wide_codes_of_too_few_or_too_many_codewords_are_refused(n_centers, tmp_path):
    index = small_index(quantizer=pcpq.PQ(section_size=4, n_centers=n_centers, **FAST))
    index.add(VECTORS)
    index.save(tmp_path / "index")
    forge_manifest(tmp_path / "index", lambda content: content | {"version": 2, "wide": True})
    forge(tmp_path / "index", "trained", edit_about=lambda about: about.update(wide=True))
    with pytest.raises(pcpq.FormatError, match=r"trained-.*wide codes of"):
        pcpq.open(tmp_path / "index")


@pytest.mark.parametrize("value", [1, "yes", None, []])
def test_a_trained_file_without_a_boolean_is_refused(value, stored):
    forge(stored, "trained", edit_about=lambda about: about.update(wide=value))
    with pytest.raises(pcpq.FormatError, match="trained-"):
        pcpq.open(stored)
