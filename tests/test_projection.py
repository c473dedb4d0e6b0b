"""Lists and codes of fewer coordinates than vectors have: what is found, chosen, stored and refused."""

import copy
import json
from functools import cache

import numpy as np
import pytest
from forging import forge, forge_manifest
from reference import exact, recall
from small_indexes import METRICS, check_a_stored_index_that_changes, small_index

import pcpq
from pcpq import _core
from pcpq.config import IndexConfig
from pcpq.ivf.projection import PrincipalAxes, balanced_order, project
from pcpq.store.manifest import MANIFEST
from pcpq.tuning import projection
from pcpq.tuning.projection import enough_of, is_open, shares

N, D, P, N_LISTS = 2400, 40, 8, 30
EVERYTHING = {"k": 10, "probes": N_LISTS, "rerank": N}
QUANTIZERS = {
    "plain": pcpq.PQ(section_size=2, max_iterations=2),
    "scaled": pcpq.QPCPQ(section_size=2, n_scales=8, max_iterations=2),
    "wide": pcpq.PQ(section_size=3, n_centers=64, max_iterations=2),
    "unpacked": pcpq.PQ(section_size=4, n_centers=80, max_iterations=2),
}


def flat(n, seed):
    """Vectors that vary in few directions, and a little in all."""
    generator = np.random.default_rng(seed)
    directions = np.random.default_rng(7).normal(size=(6, D))
    middle = np.random.default_rng(8).normal(size=D)
    rows = generator.normal(size=(n, 6)) @ directions + middle + 0.05 * generator.normal(size=(n, D))
    return rows.astype(np.float32)


BASE, ASKED = flat(N, 0), flat(60, 1)


@cache
def trained_once(coding, metric, codebooks, keep, lists_per_vector, rotation):
    return pcpq.Index(
        metric=metric,
        n_lists=N_LISTS,
        quantizer=QUANTIZERS[coding],
        codebooks=codebooks,
        keep=keep,
        rotation=rotation,
        lists_per_vector=lists_per_vector,
        code_dimensions=P,
    ).fit(BASE)


def filled(coding="plain", metric="dot", codebooks="shared", keep="float32", lists_per_vector=1, rotation=None):
    """An index, trained once for all SIMD levels."""
    index = copy.copy(trained_once(coding, metric, codebooks, keep, lists_per_vector, rotation))
    index.add(BASE)
    return index


def true_ids(metric, among=None):
    rows = np.arange(N) if among is None else among
    return rows[exact(BASE[rows], ASKED, metric, 10)[1]]


# The matrix


@pytest.mark.kernels
@pytest.mark.portable
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 40, 7), (9, 40, 8), (5, 96, 48), (17, 33, 31)])
def test_rows_are_multiplied_by_the_matrix_alike_on_every_processor(shape, simd_level, generator):
    n, d, p = shape
    rows, matrix = generator.normal(size=(n, d)).astype(np.float32), generator.normal(size=(d, p))
    matrix = matrix.astype(np.float32)
    found = project(rows, matrix)
    np.testing.assert_allclose(found, rows.astype(np.float64) @ matrix.astype(np.float64), atol=1e-4)
    _core.set_simd_level("portable")
    assert np.array_equal(found, project(rows, matrix))
    assert np.array_equal(found, np.concatenate([project(row[None], matrix) for row in rows]))


def test_shapes_that_do_not_match_are_refused(generator):
    rows, matrix = np.zeros((3, 5), np.float32), np.zeros((4, 2), np.float32)
    with pytest.raises(ValueError, match="shapes do not match"):
        _core.project(rows=rows, matrix=matrix, out_rows=np.empty((3, 2), np.float32))
    with pytest.raises(ValueError, match="shapes do not match"):
        _core.project(rows=rows[:, :4].copy(), matrix=matrix, out_rows=np.empty((3, 3), np.float32))


def test_axes_are_orthogonal_and_the_first_have_the_largest_variance(generator):
    rows = (generator.normal(size=(500, 12)) * np.geomspace(8, 0.1, 12)).astype(np.float32)
    axes, variances = PrincipalAxes.of(rows)
    np.testing.assert_allclose(axes.T @ axes, np.eye(12), atol=1e-10)
    assert (np.diff(variances) <= 0).all()
    np.testing.assert_allclose(variances, np.square(rows @ axes).mean(axis=0), rtol=1e-3)
    assert (axes[np.abs(axes).argmax(axis=0), np.arange(12)] > 0).all()


@pytest.mark.parametrize(("p", "size"), [(12, 3), (13, 3), (48, 6), (5, 8), (1, 1)])
def test_sections_vary_alike(p, size, generator):
    variances = np.sort(np.exp(generator.normal(scale=2, size=p)))[::-1]
    order = balanced_order(variances, size)
    assert sorted(order) == list(range(p))
    whole = p // size * size
    if whole < 2 * size:
        return
    spread = [np.ptp(np.log(variances[some][:whole]).reshape(-1, size).sum(axis=1)) for some in (order, ...)]
    assert spread[0] < spread[1] / 2


def test_directions_without_variance_are_ordered():
    assert sorted(balanced_order(np.zeros(6), 2)) == list(range(6))
    assert sorted(balanced_order(np.array([1.0, 0, 0, 0]), 2)) == list(range(4))


# Searches


@pytest.mark.kernels
@pytest.mark.portable
@pytest.mark.parametrize("codebooks", ["shared", "per_list"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("coding", QUANTIZERS)
def test_a_search_of_all_lists_is_exact(coding, metric, codebooks, simd_level):
    index = filled(coding=coding, metric=metric, codebooks=codebooks)
    trained = index._state.snapshot.trained
    assert trained.codebooks.coding == coding
    assert trained.partition.centroids.shape == (N_LISTS, P)
    everything, true = index.search(ASKED, **EVERYTHING), index.search(ASKED, k=10, exact=True)
    assert np.array_equal(everything.ids, true.ids)
    np.testing.assert_allclose(everything.scores, true.scores, rtol=1e-5, atol=1e-5)
    assert recall(true.ids, true_ids(metric)) > 0.999
    for options in ({"probes": 1, "rerank": 10}, {"probes": 4, "rerank": 40}):
        batch = index.search(ASKED, k=10, threads=1, **options)
        for query, ids, scores in zip(ASKED[:15], batch.ids, batch.scores, strict=False):
            single = index.search(query, k=10, **options)
            assert np.array_equal(single.ids, ids)
            assert np.array_equal(single.scores, scores)


@pytest.mark.parametrize("keep", ["int8", "int16", "float16", "float32"])
@pytest.mark.parametrize("metric", METRICS)
def test_few_lists_and_candidates_find_nearly_all(metric, keep):
    found = filled(metric=metric, keep=keep).search(ASKED, k=10, probes=12, rerank=40).ids
    assert recall(found, true_ids(metric)) > (0.8 if keep == "int8" else 0.9)


@pytest.mark.parametrize("metric", METRICS)
def test_second_lists_filters_and_rotations_go_with_it(metric):
    some = np.arange(0, N, 3)
    for parameters in ({"lists_per_vector": 2}, {"rotation": "random"}, {"rotation": "learned"}):
        index = filled(metric=metric, **parameters)
        found = index.search(ASKED, filter=some, **EVERYTHING).ids
        assert recall(found, true_ids(metric, some)) > 0.999
        index.remove(np.arange(0, N, 2))
        index.compact()
        left = np.arange(1, N, 2)
        assert recall(index.search(ASKED, **EVERYTHING).ids, true_ids(metric, left)) > 0.999


def test_vectors_are_given_back_whole():
    np.testing.assert_array_equal(filled().reconstruct([3, 5]), BASE[[3, 5]])


def test_vectors_may_have_no_length_or_no_part_in_the_projection():
    across = BASE.copy()
    across[:10] = 0.0
    index = pcpq.build(across, metric="dot", n_lists=N_LISTS, code_dimensions=1)
    axis = index._state.snapshot.trained.projection[:, 0]
    queries = ASKED - np.outer(ASKED @ axis, axis).astype(np.float32)
    queries[0] = 0.0
    found = index.search(queries, k=10, probes=N_LISTS, rerank=N)
    np.testing.assert_allclose(found.scores, exact(across, queries, "dot", 10)[0], rtol=1e-2, atol=1e-2)


# What is chosen


def test_as_many_coordinates_are_taken_as_have_enough_of_the_variance():
    config = IndexConfig(metric="dot")
    axes = PrincipalAxes.of(BASE)
    found = shares(axes, BASE[:2000], ASKED, config.metric, np.random.default_rng(0), None)
    assert found.shape == (D,)
    assert (np.diff(found) >= 0).all()
    assert found[-1] == pytest.approx(1.0)
    assert found[6] > 0.95  # six directions and the middle
    assert enough_of(np.array([0.5, 0.9, 0.984, 0.99, 1.0])) == 5  # no more than there are
    assert enough_of(np.repeat([0.9, 0.99], [49, 151])) == 96  # a whole number of steps


def test_queries_in_other_directions_need_more_coordinates():
    """What vectors hardly vary in decides all if queries vary in nothing else."""
    axes = PrincipalAxes.of(BASE)
    across = ASKED - ASKED @ axes.axes[:, :7] @ axes.axes[:, :7].T
    like, unlike = (
        shares(axes, BASE[:2000], some.astype(np.float32), "dot", np.random.default_rng(0), None)
        for some in (ASKED, across)
    )
    assert unlike[6] < 0.1 < 0.9 < like[6]


@pytest.mark.parametrize(
    ("settings", "dimensions", "n", "expected"),
    [
        ({}, 256, 40_000, True),
        ({}, 256, 39_999, False),
        ({}, 95, 40_000, False),
        ({}, 2049, 40_000, False),
        ({"quantizer": pcpq.PQ()}, 256, 40_000, False),
        ({"rotation": "random"}, 256, 40_000, False),
        ({"keep": None}, 256, 40_000, False),
    ],
)
def test_coordinates_are_left_out_only_where_it_pays_and_nothing_else_was_asked_for(
    settings, dimensions, n, expected
):
    assert is_open(IndexConfig(metric="dot", **settings), dimensions, n) == expected


@pytest.fixture
def small_sets(monkeypatch):
    monkeypatch.setattr(projection, "LEAST_VECTORS", 2000)
    monkeypatch.setattr(projection, "DIMENSIONS", range(20, 100))
    monkeypatch.setattr(projection, "STEP", 4)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("queries", [None, ASKED])
def test_coordinates_that_were_chosen_are_those_that_can_be_given(metric, queries, small_sets, tmp_path):
    index = pcpq.build(BASE, metric=metric, queries=queries)
    chosen = index.code_dimensions
    assert chosen in (4, 8, 12)
    given = pcpq.build(BASE, metric=metric, queries=queries, code_dimensions=chosen)
    found, expected = index.search(ASKED), given.search(ASKED)
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.scores, expected.scores)
    assert f"code_dimensions={chosen}: of {D} dimensions" in index.stats()["chosen"]
    assert "chosen" not in given.stats()
    assert index.stats()["code_dimensions"] == chosen
    index.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index") as opened:
        assert opened.stats()["chosen"] == index.stats()["chosen"]
        assert opened.config.code_dimensions == opened.code_dimensions == chosen
        assert np.array_equal(opened.search(ASKED).ids, found.ids)


def test_vectors_that_vary_in_all_directions_keep_all_coordinates(small_sets, generator):
    index = pcpq.build(generator.normal(size=(2100, D)).astype(np.float32), metric="dot")
    assert index.code_dimensions == D
    assert "chosen" not in index.stats()


def test_an_index_that_is_filled_later_chooses_as_one_that_is_built(small_sets):
    built = pcpq.build(BASE, metric="dot")
    fitted = pcpq.Index(metric="dot").fit(BASE)
    assert fitted.code_dimensions == built.code_dimensions < D


def test_all_coordinates_can_be_asked_for(small_sets, tmp_path):
    index = pcpq.build(BASE, metric="dot", code_dimensions=D)
    assert index.code_dimensions == D
    assert index._state.snapshot.trained.projection is None
    index.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as opened:
        assert opened.config.code_dimensions == D
        opened.refit().result()
        assert opened.code_dimensions == D


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"code_dimensions": D + 1}, f"code_dimensions is {D + 1}, but vectors have {D} dimensions"),
        ({"code_dimensions": 0}, "code_dimensions is 0"),
        ({"code_dimensions": -3}, "code_dimensions is -3"),
        ({"code_dimensions": 2.5}, "code_dimensions is 2.5"),
        ({"code_dimensions": 1 << 40}, "code_dimensions is"),
        ({"code_dimensions": 4, "keep": None}, "code_dimensions=4 needs kept vectors, but keep is None"),
        ({"code_dimensions": 4, "bytes_per_vector": 200}, "code_dimensions"),
    ],
)
def test_invalid_numbers_of_coordinates_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        pcpq.build(BASE, metric="dot", **parameters)


# Storage


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("lists_per_vector", [1, 2])
def test_a_stored_index_answers_as_it_did_and_can_be_changed(metric, lists_per_vector, tmp_path):
    def check(index):
        assert index.code_dimensions == 4
        assert index._state.snapshot.trained.projection.shape == (8, 4)

    parameters = {"metric": metric, "lists_per_vector": lists_per_vector, "code_dimensions": 4}
    check_a_stored_index_that_changes(tmp_path / "index", check, **parameters)


@pytest.fixture
def stored(tmp_path):
    """The directory of an index of version 2."""
    index = small_index(code_dimensions=4)
    index.add(flat(300, 2)[:, :8])
    index.save(tmp_path / "index")
    return tmp_path / "index"


def opened_and_asked(directory):
    with pcpq.open(directory) as index:
        index.verify()
        return index.search(np.ones((3, 8), np.float32), k=5)


def changed(value):
    def change(array):
        array = array.copy()
        array.flat[3] = value
        return array

    return change


@pytest.mark.parametrize(
    "change",
    [
        changed(np.nan),
        changed(np.inf),
        changed(1.5),
        changed(-3e38),
        lambda array: array[:, :3],
        lambda array: array[:7],
        lambda array: np.concatenate([array, array, array], axis=1),
        lambda array: array[:, :0],
        lambda array: array.astype(np.float64),
        lambda array: array.ravel(),
    ],
)
def test_forged_projections_are_refused(stored, change):
    opened_and_asked(stored)
    forge(stored, "trained", lambda arrays: arrays.update(projection=change(arrays["projection"])))
    with pytest.raises(pcpq.FormatError):
        opened_and_asked(stored)


def test_a_projection_goes_with_kept_vectors_only(tmp_path):
    small_index(keep=None).save(tmp_path / "index")
    forge(
        tmp_path / "index",
        "trained",
        lambda arrays: arrays.update(projection=np.eye(8, dtype=np.float32)),
    )
    with pytest.raises(pcpq.FormatError, match="without kept vectors"):
        pcpq.open(tmp_path / "index")


@pytest.mark.parametrize("value", [3, 5, 8, None, "4", 0, True])
def test_manifest_and_trained_file_must_agree(stored, value):
    forge_manifest(stored, lambda content: content["settings"].update(code_dimensions=value))
    with pytest.raises(pcpq.FormatError, match="code_dimensions"):
        pcpq.open(stored)


def test_version_1_knows_no_projection(stored):
    assert json.loads((stored / MANIFEST).read_text())["version"] == 2
    forge_manifest(stored, lambda content: content.update(version=1, recall=None))
    with pytest.raises(pcpq.FormatError, match="code_dimensions is 4 in version 1"):
        pcpq.open(stored)
