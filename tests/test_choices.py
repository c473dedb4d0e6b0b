"""What an index chooses when it is trained: the code for the processor, and second lists where they pay."""

import json

import numpy as np
import pytest
import reference

import pcpq
from pcpq import _core
from pcpq.config import IndexConfig
from pcpq.io.streams import Sample
from pcpq.ivf.coarse_ranking import Coarse
from pcpq.ivf.partition import fit_partition
from pcpq.ivf.probing import RankedLists
from pcpq.segment import training
from pcpq.store.manifest import MANIFEST
from pcpq.tuning import second_lists
from pcpq.tuning.second_lists import lists_per_vector, rows_share, share_in

GENERATOR = np.random.default_rng(5)
VECTORS = GENERATOR.standard_normal((6000, 12)).astype(np.float32)
CONFIG = IndexConfig(metric="dot")
WIDE = "PQ(section_size=3, n_centers=64)"


@pytest.fixture(params=_core.simd_levels())
def level(request):
    _core.set_simd_level(request.param)
    yield request.param
    _core.set_simd_level("auto")


@pytest.mark.kernels
def test_codes_of_six_bits_are_the_default_where_avx512_scans_them(level):
    for n in (training.LEAST_WIDE, None):
        for dimensions, size in ((12, 3), (191, 3), (192, 4), (383, 4), (384, 6), (1536, 6)):
            wide = f"PQ(section_size={size}, n_centers=64)"
            expected = wide if level == "avx512" else "PQ(section_size=2)"
            assert repr(training.default_quantizer(CONFIG, dimensions, n)) == expected
    assert repr(training.default_quantizer(CONFIG, 12, training.LEAST_WIDE - 1)) == "PQ(section_size=2)"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"keep": None}, "QPCPQ(section_size=2)"),
        ({"codebooks": "per_list"}, "PQ(section_size=2)"),
    ],
)
def test_codes_of_four_bits_stay_the_default_elsewhere(settings, expected):
    config = IndexConfig(metric="dot", **settings)
    assert repr(training.default_quantizer(config, 12, 10**6)) == expected


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_few_dimensions_make_one_section(dimensions):
    for n in (10, 10**6):
        assert training.default_quantizer(CONFIG, dimensions, n).get_params()["section_size"] <= dimensions


@pytest.mark.kernels
def test_the_code_that_was_chosen_is_stored_and_said(level, monkeypatch, tmp_path):
    monkeypatch.setattr(training, "LEAST_WIDE", 5000)
    index = pcpq.build(VECTORS, metric="dot")
    index.save(tmp_path / "index")
    _core.set_simd_level("portable")  # whatever opens it
    opened = pcpq.open(tmp_path / "index")
    assert np.array_equal(opened.search(VECTORS[:50]).ids, index.search(VECTORS[:50]).ids)
    assert opened.stats().get("chosen") == index.stats().get("chosen")
    if level == "avx512":
        assert index.stats()["chosen"].startswith(WIDE)
        given = pcpq.build(VECTORS, metric="dot", quantizer=pcpq.PQ(section_size=3, n_centers=64))
        assert np.array_equal(index.search(VECTORS[:50]).scores, given.search(VECTORS[:50]).scores)
    else:
        assert "chosen" not in index.stats()


def test_a_code_that_is_given_is_not_chosen():
    index = pcpq.build(VECTORS, metric="dot", quantizer=pcpq.PQ(section_size=3, n_centers=64))
    assert "chosen" not in index.stats()


@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_the_share_of_rows_is_that_of_lists_probed_one_by_one(metric):
    rows, queries = VECTORS[:3000] + np.float32(0.5), VECTORS[3000:3200] + np.float32(0.5)
    partition = fit_partition(rows, 110, metric, np.random.default_rng(1), None)
    _, nearest = reference.exact(rows, queries, metric, 10)
    order = np.argsort(RankedLists.of(partition, Coarse.of(partition), metric, queries).places, axis=1)
    first, second = partition.assign_two(rows)
    one = reference.rows_to_scan(order, nearest, [first], 0.95)
    two = reference.rows_to_scan(order, nearest, [first, second], 0.95)
    found = share_in(partition, rows, queries, metric, None)
    assert found == pytest.approx(two / one)


def test_queries_are_rows_that_are_not_counted():
    sample = Sample(VECTORS)
    shares = [
        rows_share("dot", sample, 4000, None, None, np.random.default_rng(seed), None) for seed in (1, 1, 2)
    ]
    assert shares[0] == shares[1] != shares[2]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"lists_per_vector": 1}, 1),
        ({"lists_per_vector": 2}, 2),
        ({"keep": None}, 1),
        ({"quantizer": pcpq.PCPQ()}, 1),
        ({"quantizer": pcpq.PQ(n_centers=65)}, 1),
    ],
)
def test_nothing_is_measured_where_there_is_no_choice(settings, expected, monkeypatch):
    monkeypatch.setattr(second_lists, "rows_share", None)
    config = IndexConfig(metric="dot", **settings)
    assert lists_per_vector(config, Sample(VECTORS), 10**6, None, None, None) == expected


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.99, 1)])
def test_a_second_list_is_chosen_where_it_saves_rows(share, expected, monkeypatch):
    monkeypatch.setattr(second_lists, "rows_share", lambda *_: share)
    assert lists_per_vector(CONFIG, Sample(VECTORS), second_lists.LEAST_VECTORS, None, None, None) == expected
    assert lists_per_vector(CONFIG, Sample(VECTORS), None, None, None, None) == 1  # the sample is all there is
    assert lists_per_vector(CONFIG, Sample(VECTORS), second_lists.LEAST_VECTORS - 1, None, None, None) == 1


@pytest.mark.parametrize("queries", [None, VECTORS[:100]])
def test_second_lists_that_were_chosen_are_those_that_can_be_given(queries, monkeypatch, tmp_path):
    monkeypatch.setattr(second_lists, "LEAST_VECTORS", 5000)
    monkeypatch.setattr(second_lists, "LARGEST_SHARE", 10.0)
    index = pcpq.build(VECTORS, metric="dot", queries=queries)
    given = pcpq.build(VECTORS, metric="dot", queries=queries, lists_per_vector=2)
    assert index.lists_per_vector == given.lists_per_vector == 2
    found, expected = index.search(VECTORS[:50]), given.search(VECTORS[:50])
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.scores, expected.scores)
    assert "lists_per_vector=2: " in index.stats()["chosen"]
    assert "chosen" not in given.stats()
    index.save(tmp_path / "index")
    opened = pcpq.open(tmp_path / "index")
    assert opened.stats()["chosen"] == index.stats()["chosen"]
    assert opened.config.lists_per_vector == 2
    index.refit().result()
    assert index.lists_per_vector == 2


def test_one_list_that_was_asked_for_stays_one_list(monkeypatch, tmp_path):
    monkeypatch.setattr(second_lists, "LEAST_VECTORS", 5000)
    monkeypatch.setattr(second_lists, "LARGEST_SHARE", 10.0)
    pcpq.build(VECTORS, metric="dot", lists_per_vector=1).save(tmp_path / "index")
    assert json.loads((tmp_path / "index" / MANIFEST).read_text())["version"] == 2
    with pcpq.open(tmp_path / "index", mode="a") as index:
        assert index.config.lists_per_vector == 1
        index.refit().result()
        assert index.lists_per_vector == 1
