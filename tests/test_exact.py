"""exact=True: brute force over kept vectors, with the scores of other searches."""

import numpy as np
import pytest
from reference import exact
from small_indexes import KEEPS, METRICS, string_ids
from test_single_queries import N, changed_index

import pcpq
from pcpq.search import exact as exact_module
from pcpq.search.exact import FEWEST_FOR_PRODUCTS, ROWS_TOGETHER
from pcpq.util.threads import map_threads

pytestmark = pytest.mark.kernels
KEPT = [keep for keep in KEEPS if keep is not None]
ALL = {"probes": 1 << 20, "rerank": 1 << 20}  # an approximate search that reranks all rows


@pytest.fixture(scope="module")
def vectors():
    generator = np.random.default_rng(3)
    centers = generator.normal(size=(60, 12))
    return (centers[generator.integers(60, size=N)] + 0.4 * generator.normal(size=(N, 12))).astype(np.float32)


def same(found, expected):
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("queries", [1, 3, 60])
@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("metric", METRICS)
def test_it_is_a_search_that_reranks_all_rows_to_the_bit(vectors, metric, keep, queries, simd_level):
    index = changed_index(vectors, metric, 300, 40, keep=keep)
    for k in (1, 10, 700):
        same(index.search(vectors[:queries], k, exact=True), index.search(vectors[:queries], k, **ALL))


def test_both_ways_are_used(vectors):
    assert min(FEWEST_FOR_PRODUCTS.values()) > 3
    assert max(FEWEST_FOR_PRODUCTS.values()) < 60
    assert ROWS_TOGETHER < N


@pytest.mark.parametrize("dimensions", [1, 2, 7, 8, 9, 31, 100, 257])
@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("metric", METRICS)
def test_every_number_of_dimensions(metric, keep, dimensions, generator, simd_level):
    vectors = generator.normal(size=(ROWS_TOGETHER + 300, dimensions)).astype(np.float32)
    quantizer = pcpq.PQ(section_size=min(2, dimensions), max_iterations=1)
    index = pcpq.Index(metric=metric, keep=keep, n_lists=4, quantizer=quantizer).fit(vectors)
    index.add(vectors)
    for queries in (vectors[:2], vectors[:40]):
        same(index.search(queries, exact=True), index.search(queries, **ALL))


@pytest.mark.parametrize("metric", METRICS)
def test_vectors_kept_as_float32_have_the_neighbours_of_the_oracle(vectors, metric):
    index = pcpq.build(vectors, metric=metric, keep="float32")
    for count in (3, 50):
        scores, rows = exact(vectors, vectors[:count], metric, 10)
        found = index.search(vectors[:count], exact=True)
        np.testing.assert_array_equal(found.ids, rows)
        np.testing.assert_allclose(found.scores, scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("metric", METRICS)
def test_far_from_the_origin_nothing_is_lost_to_rounding(vectors, metric, scale, keep):
    far = scale * (vectors + 300.0)  # inner products of float32 cannot tell these apart
    index = pcpq.build(far, metric=metric, keep=keep, n_lists=20)
    for queries in (far[:2], far[:60]):
        same(index.search(queries, exact=True), index.search(queries, **ALL))


@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_lengths_of_many_orders_of_magnitude(vectors, metric, keep, generator):
    spread = (vectors * 10.0 ** generator.uniform(-6, 3, size=(N, 1))).astype(np.float32)
    spread[::17] = 0.0
    index = pcpq.build(spread, metric=metric, keep=keep, n_lists=20)
    for queries in (spread[:2], spread[:60], np.zeros((1, 12), np.float32), np.zeros((40, 12), np.float32)):
        same(index.search(queries, exact=True), index.search(queries, **ALL))


@pytest.mark.parametrize("queries", [1, 50])
@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("metric", METRICS)
def test_of_equal_vectors_the_lower_ids_are_found(vectors, metric, keep, queries):
    copies = np.repeat(vectors[:30], 100, axis=0)
    index = pcpq.build(copies, metric=metric, keep=keep, n_lists=10)
    found = index.search(np.repeat(vectors[:1], queries, axis=0), k=20, exact=True)
    same(found, index.search(np.repeat(vectors[:1], queries, axis=0), k=20, **ALL))
    if metric != "dot":
        assert found.ids.tolist() == [list(range(20))] * queries


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_threads_do_not_change_the_answer(generator, threads):
    vectors = generator.normal(size=(20_000, 40)).astype(np.float32)
    index = pcpq.build(vectors, metric="dot", n_lists=30)
    expected = index.search(vectors[:80], exact=True, threads=1)
    same(index.search(vectors[:80], exact=True, threads=threads), expected)
    for row in range(3):
        alone = index.search(vectors[row], exact=True, threads=threads)
        np.testing.assert_array_equal(alone.ids, expected.ids[row])
        np.testing.assert_array_equal(alone.scores, expected.scores[row])


def test_filters_select_and_string_ids(vectors):
    index = pcpq.build(vectors, ids=string_ids(range(N)), metric="dot", attributes={"n": np.arange(N)})
    allowed = string_ids(range(0, N, 7))
    for options in ({"filter": allowed}, {"exclude": allowed}, {"where": "n % 3 = 1"}):
        same(index.search(vectors[:40], exact=True, **options), index.search(vectors[:40], **ALL, **options))
    found = index.search(vectors[:2], k=3, exact=True, select="n")
    assert [string_ids([n])[0] for n in found.attributes["n"].to_pylist()] == found.ids.ravel().tolist()


def test_more_results_than_vectors(vectors):
    index = pcpq.build(vectors, metric="dot")
    found = index.search(vectors[:40], k=20, filter=range(5), exact=True)
    assert (found.ids[:, :5] >= 0).all()
    assert (found.ids[:, 5:] == -1).all()
    assert (found.scores[:, 5:] == -np.inf).all()
    assert index.search(vectors[:0], exact=True).ids.shape == (0, 10)


def test_a_stored_index_is_verified_as_it_is_read(vectors, tmp_path):
    pcpq.build(vectors, metric="dot").save(tmp_path / "index")
    with pcpq.open(tmp_path / "index") as index:
        same(index.search(vectors[:40], exact=True), index.search(vectors[:40], **ALL))
    (path,) = (tmp_path / "index").glob("segment-*")
    content = bytearray(path.read_bytes())
    kept = pcpq.build(vectors, metric="dot")._state.snapshot.parts[0].segment.kept.tobytes()
    place = content.index(kept)
    content[place + len(kept) // 2] ^= 1
    path.write_bytes(content)
    for queries in (vectors[:40], vectors[:1]):
        with pcpq.open(tmp_path / "index") as index, pytest.raises(pcpq.FormatError):
            index.search(queries, exact=True)


def test_explain_counts_all_rows_and_no_lists(vectors):
    told = pcpq.build(vectors, metric="dot").explain(vectors[0], exact=True)
    assert (told["lists_probed"], told["rows_scanned"], told["candidates_reranked"]) == (0, 0, N)
    assert told["seconds"]["rerank"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_recall": 0.9}, "target_recall has no meaning"),
        ({"probes": 3}, "probes has no meaning"),
        ({"rerank": 30}, "rerank has no meaning"),
        ({"exact": "yes"}, "exact is 'yes'"),
        ({"exact": None}, "exact is None"),
    ],
)
def test_options_without_meaning_are_refused(vectors, options, message):
    index = pcpq.build(vectors, metric="dot")
    for queries in (vectors[0], vectors[:40]):
        with pytest.raises(ValueError, match=message):
            index.search(queries, **({"exact": True} | options))


def test_an_index_of_codes_alone_says_why_it_cannot(vectors):
    with pytest.raises(ValueError, match="keep=None"):
        pcpq.build(vectors, metric="dot", keep=None).search(vectors[0], exact=True)


def test_numpy_booleans_are_taken(vectors):
    index = pcpq.build(vectors, metric="dot")
    same(index.search(vectors[:2], exact=np.True_), index.search(vectors[:2], exact=True))
    same(index.search(vectors[:2], exact=np.False_), index.search(vectors[:2]))


@pytest.mark.parametrize("scale", [1e-20, 1e-22, 1e-25, 1e-30])
@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_vectors_too_small_for_the_squares_of_float32(metric, scale, generator, simd_level):
    vectors = generator.normal(size=(3000, 8)).astype(np.float32)
    near = np.tile(generator.normal(size=8) * scale, (1000, 1)).astype(np.float32)
    for towards in (1, -1):  # neighbouring numbers: sums that float32 cannot tell apart
        near = np.where(generator.random(near.shape) < 0.3, np.nextafter(near, np.float32(towards)), near)
    vectors[1000:2000] = near
    index = pcpq.build(vectors, metric=metric, keep="float32", n_lists=20)
    queries = generator.normal(size=(20, 8)).astype(np.float32)
    if metric == "euclidean":
        queries *= np.float32(scale)
    for query in queries:
        options = {"filter": np.arange(1000, 2000)}
        same(index.search(query, exact=True, **options), index.search(query, **ALL, **options))


@pytest.mark.parametrize("exact", [0, None, "", "yes", 1])
def test_values_that_are_not_bool_are_refused_also_after_a_search(vectors, exact):
    index = pcpq.build(vectors, metric="dot")
    index.search(vectors[:2])
    with pytest.raises(ValueError, match="exact is"):
        index.search(vectors[:2], exact=exact)


def test_a_thread_looks_for_an_interruption_often(vectors, monkeypatch):
    turns = []

    def watched(function, items, threads):
        turns.extend(items)
        return map_threads(function, items, threads)

    monkeypatch.setattr(exact_module, "map_threads", watched)
    monkeypatch.setattr(exact_module, "WORK_PER_TURN", 1)
    index = pcpq.build(vectors, metric="dot")
    found = index.search(vectors[:200], exact=True, threads=2)
    assert len(turns) == -(-N // ROWS_TOGETHER) > 2
    same(found, index.search(vectors[:200], **ALL))
