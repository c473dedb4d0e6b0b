import copy
from dataclasses import replace

import numpy as np
import pytest
from reference import exact, recall
from small_indexes import METRICS

import pcpq
from pcpq import _core
from pcpq.store.state import State

pytestmark = pytest.mark.portable

# Few rounds of training: it is the index that is tested here.
QUANTIZERS = [
    quantizer.set_params(max_iterations=4)
    for quantizer in (
        pcpq.PQ(section_size=2),
        pcpq.PQ(section_size=3, n_centers=64),
        pcpq.PQ(section_size=2, n_centers=40),
        pcpq.PQ(section_size=4, n_centers=100),
        pcpq.APQ(section_size=2),
        pcpq.APQ(section_size=2, norm_scale=True),
        pcpq.PCPQ(section_size=2),
        pcpq.APCPQ(section_size=2),
        pcpq.QPCPQ(section_size=2),
        pcpq.QPCPQ(section_size=3, n_centers=8, n_scales=8),
        pcpq.QPCPQ(section_size=3, n_centers=20, n_scales=3),
        pcpq.QPCPQ(section_size=4, n_centers=200, n_scales=20),
        pcpq.QAPCPQ(section_size=2),
        pcpq.QPCPQ(section_size=4, n_centers=40, scales_per="vector"),
    )
]


def name_of(quantizer):
    return f"{type(quantizer).__name__}-{quantizer.n_centers}"


@pytest.fixture(scope="module")
def few():
    generator = np.random.default_rng(2)
    centers = generator.normal(size=(9, 8))
    vectors = centers[generator.integers(9, size=600)] + 0.5 * generator.normal(size=(600, 8))
    queries = vectors[generator.integers(600, size=30)] + 0.2 * generator.normal(size=(30, 8))
    return vectors.astype(np.float32), queries.astype(np.float32)


@pytest.mark.parametrize("codebooks", ["shared", "per_list"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=name_of)
def test_recall_with_every_metric_quantizer_and_codebooks(quantizer, metric, codebooks, few):
    vectors, queries = few
    best, truth = exact(vectors, queries, metric, 10)
    fitted = pcpq.Index(metric=metric, quantizer=quantizer, codebooks=codebooks, n_lists=3).fit(vectors)
    for keep, floor in ((None, 0.45), ("int8", 0.85), ("int16", 0.9), ("float16", 0.9), ("float32", 0.9)):
        # What is learned does not depend on what is kept; learning it once saves most of the time.
        index = copy.copy(fitted)
        index._config = replace(fitted.config, keep=keep)
        index._state = State(replace(fitted._state.snapshot.trained, keep=keep))
        index.add(vectors)
        found = index.search(queries, k=10, probes=3, rerank=60)
        assert recall(found.ids, truth) >= floor, keep
        # Scores are those of the metric: near the true ones, in the order of best first.
        assert np.abs(found.scores - best).mean() < (0.25 if keep is None else 0.02) * np.abs(best).mean()
        assert (np.diff(found.scores, axis=1) * (1 if metric == "euclidean" else -1) >= 0).all()


@pytest.mark.kernels
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("codebooks", ["shared", "per_list"])
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=name_of)
def test_all_rows_re_ranked_in_float32_are_brute_force(quantizer, codebooks, metric, few):
    vectors, queries = few
    index = pcpq.build(
        vectors, metric=metric, quantizer=quantizer, codebooks=codebooks, keep="float32", n_lists=3
    )
    _, truth = exact(vectors, queries, metric, 10)
    assert np.array_equal(index.search(queries, k=10, probes=3, rerank=len(vectors)).ids, truth)


@pytest.mark.parametrize("codebooks", ["shared", "per_list"])
@pytest.mark.parametrize("keep", [None, "int16"])
@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=name_of)
def test_a_batch_is_its_queries_one_at_a_time_on_every_simd_level(quantizer, codebooks, keep, few):
    vectors, queries = few
    index = pcpq.build(
        vectors,
        metric="dot",
        quantizer=quantizer,
        codebooks=codebooks,
        keep=keep,
        n_lists=5,
        rotation="random",
    )
    options = {"k": 5, "probes": 3, "rerank": 20}
    expected = index.search(queries, **options, threads=1)
    level = _core.simd_level()
    try:
        for name in _core.simd_levels():
            _core.set_simd_level(name)
            for some in (1, 7, 30):
                parts = [index.search(queries[i : i + some], **options) for i in range(0, 30, some)]
                assert np.array_equal(np.concatenate([part.ids for part in parts]), expected.ids)
                assert np.array_equal(np.concatenate([part.scores for part in parts]), expected.scores)
            alone = [index.search(query, **options) for query in queries]
            assert np.array_equal(np.stack([one.scores for one in alone]), expected.scores)
    finally:
        _core.set_simd_level(level)


@pytest.mark.parametrize(
    "quantizer",
    [pcpq.PQ(), pcpq.QPCPQ(), pcpq.PCPQ(), pcpq.PQ(n_centers=40), pcpq.PQ(n_centers=256)],
    ids=name_of,
)
def test_rows_added_later_and_given_back_are_the_same_with_a_codebook_a_list(quantizer, few):
    vectors, queries = few
    index = pcpq.Index(metric="euclidean", quantizer=quantizer, codebooks="per_list", keep=None, n_lists=4)
    index.fit(vectors)
    index.add(vectors[:250])
    index.add(vectors[250:])
    whole = pcpq.Index(metric="euclidean", quantizer=quantizer, codebooks="per_list", keep=None, n_lists=4)
    whole.fit(vectors).add(vectors)
    assert np.array_equal(index.search(queries, probes=4).ids, whole.search(queries, probes=4).ids)
    back = index.reconstruct(np.arange(600))
    assert np.array_equal(back, whole.reconstruct(np.arange(600)))
    assert np.square(back - vectors).mean() < 0.3 * np.square(vectors).mean()


def test_vectors_of_one_list_alone_take_that_lists_codebook(few):
    vectors, _ = few
    fitted = pcpq.Index(metric="euclidean", codebooks="per_list", keep=None, n_lists=4).fit(vectors)
    whole, one_by_one = copy.copy(fitted), copy.copy(fitted)
    whole.add(vectors[:40])
    for vector in vectors[:40]:
        one_by_one.add(vector[None])
    assert np.array_equal(one_by_one.reconstruct(np.arange(40)), whole.reconstruct(np.arange(40)))


def test_a_codebook_a_list_fits_lists_that_differ():
    generator = np.random.default_rng(5)
    # Two clouds, each flat in another plane: one codebook has half its codewords for each, two have all.
    planes = np.array([[1, 1, 0.01, 0.01], [0.01, 0.01, 1, 1]])
    clouds = generator.normal(size=(2, 2000, 4)) * planes[:, None] + np.array([10.0, -10.0])[:, None, None]
    vectors = clouds.reshape(-1, 4).astype(np.float32)
    errors = {}
    for codebooks in ("shared", "per_list"):
        quantizer = pcpq.PQ(section_size=4)
        index = pcpq.build(
            vectors, metric="euclidean", quantizer=quantizer, codebooks=codebooks, keep=None, n_lists=2
        )
        errors[codebooks] = np.square(index.reconstruct(np.arange(4000)) - vectors).mean()
    assert errors["per_list"] < 0.8 * errors["shared"]


@pytest.mark.kernels
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("tails", [1.0, 30.0])
def test_a_guessed_threshold_changes_no_answer(metric, tails):
    generator = np.random.default_rng(11)
    # With heavy tails the guess is far too high, and the scan is done again without one.
    vectors = generator.standard_t(tails, size=(6000, 8)).astype(np.float32)
    queries = generator.normal(size=(40, 8)).astype(np.float32)
    index, every = pcpq.build(vectors, metric=metric, n_lists=12), np.arange(6000)
    for probes, rerank in ((3, 10), (6, 100), (12, 1000), (12, 4000)):
        guessed = index.search(queries, probes=probes, rerank=rerank)
        scanned = index.search(queries, probes=probes, rerank=rerank, filter=every)  # which guesses nothing
        assert np.array_equal(guessed.ids, scanned.ids)
        assert np.array_equal(guessed.scores, scanned.scores)


@pytest.mark.kernels
def test_rows_are_permuted_in_place():
    generator = np.random.default_rng(1)
    for n, width in ((1, 3), (2, 1), (1000, 7)):
        rows = generator.integers(256, size=(n, width), dtype=np.uint8)
        order = generator.permutation(n)
        expected = rows[order]
        assert _core.permute_rows(rows=rows, order=order)
        assert np.array_equal(rows, expected)
    rows = np.arange(6, dtype=np.uint8).reshape(3, 2)
    for wrong in ([0, 0, 1], [0, 1, 3], [0, -1, 2]):
        assert not _core.permute_rows(rows=rows, order=np.array(wrong))
        assert np.array_equal(rows.ravel(), np.arange(6))
