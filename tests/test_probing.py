"""Which lists queries probe: by weights, about as many as are asked for on average."""

import json
from dataclasses import replace

import numpy as np
import pytest
from reference import exact, recall, softmax_weights
from small_indexes import without_weights

import pcpq
from pcpq.ivf.probing import MOST_TIMES, Probing, RankedLists
from pcpq.search.queries import prepare_queries
from pcpq.search.recall_curve import RecallCurve
from pcpq.store.manifest import read_manifest

METRICS = ["dot", "cosine", "euclidean"]


def crowds(seed, n, d=16):
    """Return vectors in crowds of very different size and width: neighbours lie in few lists or in many."""
    generator = np.random.default_rng(seed)
    middles = np.random.default_rng(0).normal(size=(30, d))
    widths = np.random.default_rng(1).uniform(0.05, 0.8, size=30)
    crowd = generator.integers(30, size=n)
    return (middles[crowd] + widths[crowd, None] * generator.normal(size=(n, d))).astype(np.float32)


VECTORS, QUERIES = crowds(2, 12_000), crowds(3, 400)


@pytest.fixture(scope="module")
def indexes():
    return {metric: pcpq.build(VECTORS, metric=metric, n_lists=150, keep="float32") for metric in METRICS}


def ranked(index, queries):
    trained = index._state.snapshot.trained
    rows = prepare_queries(trained, queries).rows
    return RankedLists.of(trained.partition, trained.coarse, trained.metric, rows)


def probed(index, queries, probes, **options):
    return np.array([index.explain(query, k=1, probes=probes, **options)["lists_probed"] for query in queries])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("probes", [1, 2, 5, 12, 40])
def test_a_query_probes_the_lists_whose_weight_is_enough(indexes, metric, probes, simd_level):
    index = indexes[metric]
    lists, probing = ranked(index, QUERIES), index._state.snapshot.recall.probing(probes)
    weights = softmax_weights(lists.ranks, lists.lengths, probing.temperature)
    expected = np.clip((np.log(weights) >= probing.margin).sum(axis=1), 1, MOST_TIMES * probes)
    found = probed(index, QUERIES, probes)
    # Native code knows powers of e to a few hundredths, so a list at the bound may be in or out.
    assert np.mean(np.abs(found - expected) <= 1 + expected // 20) > 0.95


@pytest.mark.parametrize("metric", METRICS)
def test_queries_probe_as_many_lists_as_asked_for_on_average(indexes, metric):
    for probes in (1, 3, 10, 30):
        found = probed(indexes[metric], QUERIES, probes)
        assert 0.85 * probes <= found.mean() <= 1.15 * probes
        assert found.min() >= 1
        assert found.max() <= MOST_TIMES * probes
    assert (probed(indexes[metric], QUERIES[:9], 150) == 150).all()
    assert (probed(indexes[metric], QUERIES[:9], 1000) == 150).all()


def test_queries_whose_neighbours_are_spread_probe_more_lists(indexes):
    found = probed(indexes["cosine"], QUERIES, 10)
    assert found.max() > 3 * found.min()


@pytest.mark.parametrize("metric", METRICS)
def test_the_same_number_of_lists_on_average_finds_more(indexes, metric):
    index = indexes[metric]
    true = exact(VECTORS, QUERIES, metric, 10)[1]
    alike = without_weights(pcpq.build(VECTORS, metric=metric, n_lists=150, keep="float32"))
    by_weight, by_number = (
        recall(one.search(QUERIES, 10, probes=6, rerank=200).ids, true) for one in (index, alike)
    )
    assert by_weight > by_number + 0.005


@pytest.mark.parametrize("metric", METRICS)
def test_single_queries_and_batches_probe_the_same_lists(indexes, metric):
    for probes in (1, 4, 20):
        together = indexes[metric].search(QUERIES, 10, probes=probes, rerank=50)
        alone = [indexes[metric].search(query, 10, probes=probes, rerank=50) for query in QUERIES]
        assert np.array_equal(together.ids, [one.ids for one in alone])
        assert np.array_equal(together.scores, [one.scores for one in alone])


def test_more_probes_never_find_less(indexes):
    index = indexes["dot"]
    counts = np.array([probed(index, QUERIES[:60], probes) for probes in range(1, 40, 3)])
    assert (np.diff(counts, axis=0) >= 0).all()


def test_queries_without_length_and_equal_lists_are_answered():
    index = pcpq.build(VECTORS, metric="dot", n_lists=150)
    assert (index.search(np.zeros((9, 16), np.float32), 10, probes=3).ids >= 0).all()
    same = pcpq.build(np.tile(VECTORS[:300], (10, 1)), metric="euclidean", n_lists=20)
    assert (same.search(QUERIES, 10, probes=2).ids >= 0).all()


@pytest.mark.parametrize("temperature", [0.0, 1e-9, 1e-3, 1e18])
@pytest.mark.parametrize("margin", [0.0, -1e9, -3.0])
def test_any_margin_that_a_file_may_hold_probes_some_lists(indexes, temperature, margin):
    segment = indexes["dot"]._state.snapshot.parts[0]
    probing = Probing(3, 24, temperature, margin)
    ids, counts = np.empty((len(QUERIES), 5), np.int64), np.empty((len(QUERIES), 3), np.int64)
    segment.segment.searcher.search(
        queries=QUERIES,
        **probing.native(),
        rerank=20,
        out_ids=ids,
        out_scores=np.empty(ids.shape),
        out_counts=counts,
    )
    assert ((counts[:, 0] >= 1) & (counts[:, 0] <= 24)).all()
    assert (ids[:, 0] >= 0).all()


def test_an_index_stored_before_there_were_weights_probes_as_many_lists_for_all(tmp_path):
    index = without_weights(pcpq.build(VECTORS, metric="dot", n_lists=150, quantizer=pcpq.PQ()))
    index.save(tmp_path / "index")
    assert json.loads((tmp_path / "index" / "manifest.json").read_text())["version"] == 1
    with pcpq.open(tmp_path / "index") as again:
        assert (probed(again, QUERIES[:20], 7) == 7).all()


def test_weights_are_stored_in_version_2(tmp_path):
    index = pcpq.build(VECTORS, metric="dot", n_lists=150, quantizer=pcpq.PQ())
    index.save(tmp_path / "index")
    manifest = read_manifest(tmp_path / "index")
    assert manifest.version == 2
    assert manifest.recall.temperature == index._state.snapshot.recall.temperature
    with pcpq.open(tmp_path / "index") as again:
        assert np.array_equal(probed(again, QUERIES[:50], 7), probed(index, QUERIES[:50], 7))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"margins": []}, "margins are"),
        ({"margins": [0.0]}, "margins are"),
        ({"margins": "rising"}, "margins are"),
        ({"margins": "above 0"}, "margins are"),
        ({"margins": "nan"}, "margins are"),
        ({"margins": "words"}, "margins are"),
        ({"margins": "large"}, "margins are"),
        ({"temperature": -1.0}, "temperature is"),
        ({"temperature": float("nan")}, "temperature is"),
        ({"temperature": 1e300}, "temperature is"),
        ({"temperature": True}, "temperature is"),
        ({"temperature": "warm"}, "temperature is"),
    ],
)
def test_weights_of_a_forged_file_are_refused(indexes, changed, message):
    values = indexes["dot"]._state.snapshot.recall.to_json()
    margins = values["margins"]
    forged = {
        "rising": margins[::-1],
        "above 0": [0.5, *margins[1:]],
        "nan": [*margins[:-1], float("nan")],
        "words": [*margins[:-1], "x"],
        "large": [*margins[:-1], -1e300],
    }
    if isinstance(changed.get("margins"), str):
        changed = {"margins": forged[changed["margins"]]}
    with pytest.raises(ValueError, match=message):
        RecallCurve.from_json(values | changed)


def test_filters_probe_until_there_are_enough_results(indexes):
    some = np.arange(0, len(VECTORS), 5)
    found = indexes["dot"].search(QUERIES[:40], 30, probes=1, filter=some)
    assert np.isin(found.ids, some).all()


def test_tuning_chooses_margins_for_the_queries_given(indexes):
    far = (3.0 * np.random.default_rng(9).normal(size=(300, 16))).astype(np.float32)
    index = pcpq.build(VECTORS, metric="dot", n_lists=150)
    before = probed(index, far, 10).mean()
    index.tune(far)
    after = probed(index, far, 10).mean()
    assert abs(after - 10) < min(abs(before - 10), 1.5)


def test_a_curve_without_margins_probes_exactly(indexes):
    curve = replace(indexes["dot"]._state.snapshot.recall, margins=None)
    assert curve.probing(7) == Probing.exactly(7)
    assert curve.same_as(RecallCurve.from_json(curve.to_json()))
