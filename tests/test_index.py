import pickle
import threading

import numpy as np
import pytest
from reference import exact, recall
from small_indexes import METRICS

import pcpq
from pcpq import _core

pytestmark = [pytest.mark.kernels, pytest.mark.quick]


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(7)
    centers = generator.normal(size=(40, 20))
    vectors = centers[generator.integers(40, size=4000)] + 0.5 * generator.normal(size=(4000, 20))
    vectors *= generator.lognormal(sigma=0.3, size=(4000, 1))
    queries = vectors[generator.integers(4000, size=60)] + 0.3 * generator.normal(size=(60, 20))
    return vectors.astype(np.float32), queries.astype(np.float32)


@pytest.mark.parametrize("metric", METRICS)
def test_all_lists_and_rows_re_ranked_in_float32_are_brute_force(metric, data, simd_level):
    vectors, queries = data
    index = pcpq.build(vectors, metric=metric, keep="float32", n_lists=30)
    scores, ids = index.search(queries, k=10, probes=30, rerank=len(vectors))
    expected, rows = exact(vectors, queries, metric, 10)
    assert np.array_equal(ids, rows)
    assert np.allclose(scores, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("keep", [None, "int8", "int16", "float16", "float32"])
@pytest.mark.parametrize(
    "quantizer",
    [
        pcpq.PQ(section_size=2),
        pcpq.APQ(section_size=3, n_centers=11),
        pcpq.QPCPQ(section_size=3, n_scales=8),
        pcpq.PQ(section_size=3, n_centers=64),
        pcpq.QPCPQ(section_size=3, n_scales=4),
        pcpq.QAPCPQ(section_size=2),
    ],
    ids=lambda quantizer: type(quantizer).__name__,
)
def test_recall_with_every_metric_quantizer_and_precision(metric, keep, quantizer, data):
    vectors, queries = data
    index = pcpq.build(vectors, metric=metric, keep=keep, n_lists=30, quantizer=quantizer)
    scores, ids = index.search(queries, k=10, probes=15, rerank=200)
    expected, rows = exact(vectors, queries, metric, 10)
    scaled = isinstance(quantizer, (pcpq.QPCPQ, pcpq.QAPCPQ))
    floor = {None: 0.65 if scaled else 0.4, "int8": 0.9}.get(keep, 0.97)
    assert recall(ids, rows) > floor
    if keep == "float32":
        assert np.allclose(scores[:, 0], expected[:, 0], rtol=1e-4, atol=1e-5)
    order = np.diff(scores, axis=1)
    assert (order >= 0).all() if metric == "euclidean" else (order <= 0).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("keep", [None, "int16"])
def test_a_batch_gives_what_its_queries_give_one_at_a_time(metric, keep, data):
    vectors, queries = data
    index = pcpq.build(vectors, metric=metric, keep=keep, n_lists=50)
    together = index.search(queries, k=5, probes=9, rerank=40, threads=1)
    for threads in (2, 3):
        again = index.search(queries, k=5, probes=9, rerank=40, threads=threads)
        assert np.array_equal(together.ids, again.ids)
        assert np.array_equal(together.scores, again.scores)
    for i, query in enumerate(queries):
        alone = index.search(query, k=5, probes=9, rerank=40)
        assert np.array_equal(alone.ids, together.ids[i])
        assert np.array_equal(alone.scores, together.scores[i])


@pytest.mark.parametrize(
    "quantizer",
    [pcpq.PQ(section_size=2), pcpq.QPCPQ(section_size=2), pcpq.PQ(section_size=3, n_centers=64)],
    ids=["plain", "scaled", "wide"],
)
def test_simd_levels_give_the_same_bits(quantizer, data):
    vectors, queries = data
    index = pcpq.build(vectors, metric="dot", keep=None, quantizer=quantizer, n_lists=20)
    found = []
    before = _core.simd_level()
    try:
        for level in _core.simd_levels():
            _core.set_simd_level(level)
            found.append(index.search(queries, k=20, probes=5))
    finally:
        _core.set_simd_level(before)
    for other in found[1:]:
        assert np.array_equal(found[0].ids, other.ids)
        assert np.array_equal(found[0].scores, other.scores)


@pytest.mark.parametrize("dimensions", [1, 2, 65, 100, 384, 1536])
@pytest.mark.parametrize("keep", [None, "int16"])
def test_any_number_of_dimensions(dimensions, keep):
    generator = np.random.default_rng(dimensions)
    vectors = generator.normal(size=(700, dimensions)).astype(np.float32)
    index = pcpq.build(vectors, metric="euclidean", keep=keep, n_lists=5)
    _, ids = index.search(vectors[:40], k=1, probes=5, rerank=50)
    share = np.mean(ids[:, 0] == np.arange(40))
    assert share > (0.95 if dimensions > 2 else 0.1)


@pytest.mark.parametrize(
    "quantizer",
    [
        pcpq.PQ(section_size=1, n_centers=2, max_iterations=1),
        pcpq.QPCPQ(section_size=2, n_centers=2, n_scales=2, max_iterations=1),
        pcpq.PQ(section_size=1, n_centers=17, max_iterations=1),
    ],
    ids=["plain", "scaled", "wide"],
)
def test_sums_over_thousands_of_sections_stay_in_sixteen_bits(quantizer):
    vectors = np.random.default_rng(0).normal(size=(80, 4096)).astype(np.float32)
    index = pcpq.build(vectors, metric="dot", keep=None, n_lists=1, quantizer=quantizer)
    # One candidate: the scan's integers alone choose it.
    found = index.search(np.concatenate([vectors, -vectors]), k=1, probes=1, rerank=1).ids[:, 0]
    assert np.array_equal(found[:80], np.arange(80))
    assert not (found[80:] == np.arange(80)).any()


@pytest.mark.parametrize("quantizer", [None, pcpq.PQ(section_size=3, n_centers=64)], ids=["default", "wide"])
@pytest.mark.parametrize("share", [0.0005, 0.1, 0.9])
def test_a_filter_finds_what_brute_force_finds_among_the_allowed(share, quantizer, data):
    vectors, queries = data
    allowed = np.flatnonzero(np.random.default_rng(3).random(len(vectors)) < share)
    index = pcpq.build(vectors, metric="dot", keep="float32", n_lists=40, quantizer=quantizer)
    ids = index.search(queries, k=10, probes=2, filter=allowed).ids
    assert np.isin(ids[ids >= 0], allowed).all()
    assert ((ids >= 0).sum(axis=1) == min(10, len(allowed))).all()
    excluded = np.setdiff1d(np.arange(len(vectors)), allowed)
    assert np.array_equal(ids, index.search(queries, k=10, probes=2, exclude=excluded).ids)
    if len(allowed) <= 400:
        _, rows = exact(vectors[allowed], queries, "dot", 10)
        assert np.array_equal(ids[:, : rows.shape[1]], allowed[rows])


def test_a_bitmap_filters_as_its_ids_do_also_after_rows_are_added(data):
    vectors, queries = data
    allowed = np.arange(0, 4000, 3)
    bitmap = pcpq.Bitmap(allowed[::-1])
    assert len(bitmap) == len(allowed)
    index = pcpq.Index(metric="dot", n_lists=20).fit(vectors)
    for part in (slice(0, 3000), slice(3000, 4000)):
        index.add(vectors[part])
        for _ in range(2):
            found = index.search(queries, filter=bitmap)
            assert np.array_equal(found.ids, index.search(queries, filter=allowed).ids)
    some = index.search(queries, filter=bitmap, exclude=[0, 3, 6]).ids
    assert np.array_equal(some, index.search(queries, filter=allowed[3:]).ids)
    with pytest.raises(ValueError, match="expected integers"):
        pcpq.Bitmap([0.5])
    with pytest.raises(ValueError, match="ids are int"):
        index.search(queries, filter=["a"])


@pytest.mark.parametrize("metric", METRICS)
def test_a_range_holds_all_that_brute_force_finds_in_it(metric, data):
    vectors, queries = data
    index = pcpq.build(vectors, metric=metric, keep="float32", n_lists=30)
    expected, rows = exact(vectors, queries, metric, 400)
    bound = float(np.median(expected[:, 200]))
    name = "max_distance" if metric == "euclidean" else "min_score"
    limits, scores, ids = index.search_range(queries, **{name: bound}, probes=30)
    inside = expected <= bound if metric == "euclidean" else expected >= bound
    for i in range(len(queries)):
        part = slice(limits[i], limits[i + 1])
        wanted = rows[i][inside[i]]
        if len(wanted) == 400:  # brute force was cut off
            continue
        assert len(np.setxor1d(ids[part], wanted)) <= 0.02 * len(wanted) + 1
        assert (scores[part] <= bound).all() if metric == "euclidean" else (scores[part] >= bound).all()
    assert limits[-1] == len(ids) == len(scores)
    with pytest.raises(ValueError, match=f"takes {name}"):
        index.search_range(queries)


@pytest.mark.parametrize("rotation", ["random", "learned"])
def test_rotated_codes_find_and_give_back_the_same_vectors(rotation, data):
    vectors, queries = data
    index = pcpq.build(vectors, metric="dot", keep="float32", n_lists=20, rotation=rotation)
    assert (
        recall(index.search(queries, probes=20, rerank=300).ids, exact(vectors, queries, "dot", 10)[1]) > 0.97
    )
    decoded = pcpq.build(vectors, metric="dot", keep=None, n_lists=20, rotation=rotation).reconstruct([7, 8])
    assert np.square(decoded - vectors[[7, 8]]).sum() < 0.1 * np.square(vectors[[7, 8]]).sum()


def test_a_learned_rotation_lowers_the_error_of_correlated_coordinates():
    generator = np.random.default_rng(0)
    mixed = generator.normal(size=(3000, 16)) * np.geomspace(1, 0.02, 16) @ generator.normal(size=(16, 16))
    errors = []
    for rotation in (None, "learned"):
        index = pcpq.build(mixed, metric="euclidean", keep=None, n_lists=1, rotation=rotation)
        errors.append(np.square(index.reconstruct(np.arange(3000)) - mixed).mean())
    assert errors[1] < 0.95 * errors[0]


def test_explain_counts_what_a_search_did(data):
    vectors, queries = data
    index = pcpq.build(vectors, metric="dot", n_lists=40)
    told = index.explain(queries[0], k=10, probes=4, rerank=50)
    assert (told["lists"], told["lists_probed"], told["candidates_reranked"]) == (40, 4, 50)
    assert 50 <= told["rows_scanned"] < 4000
    assert told["reranked_by"] == "int16"
    assert all(seconds > 0 for seconds in told["seconds"].values())
    with pytest.raises(ValueError, match="no option 'probe'"):
        index.explain(queries[0], probe=3)


@pytest.mark.parametrize(
    ("former", "now"), [("candidates_judged", "candidates_reranked"), ("judged_by", "reranked_by")]
)
def test_former_keys_of_explain_warn(data, former, now):
    told = pcpq.build(data[0][:100], metric="dot").explain(data[1][0])
    with pytest.warns(DeprecationWarning, match=rf"explain\(\)\['{former}'\] is now explain\(\)\['{now}'\]"):
        assert told[former] == told[now]
    assert former not in told


@pytest.mark.parametrize(("former", "now"), [("tables", "lookup tables"), ("judge", "rerank")])
def test_former_stages_of_explain_warn(data, former, now):
    seconds = pcpq.build(data[0][:100], metric="dot").explain(data[1][0])["seconds"]
    with pytest.warns(DeprecationWarning, match=rf"\[\"seconds\"\]\['{former}'\] is now .*\['{now}'\]"):
        assert seconds[former] == seconds[now]
    assert list(seconds) == ["rank lists", "lookup tables", "scan", "rerank"]
    assert pickle.loads(pickle.dumps(seconds)) == seconds
    with pytest.raises(KeyError):
        seconds["merge"]


def test_an_iterator_without_batches_is_refused(data):
    for call in (pcpq.Index(metric="dot", n_lists=5).fit, lambda batches: pcpq.build(batches, metric="dot")):
        with pytest.raises(ValueError, match="no batches"):
            call(iter([]))


def test_missing_results_are_minus_one(data):
    vectors, queries = data
    for metric, fill in (("dot", -np.inf), ("euclidean", np.inf)):
        index = pcpq.build(vectors[:7], metric=metric)
        scores, ids = index.search(queries, k=10)
        assert (ids[:, 7:] == -1).all()
        assert (scores[:, 7:] == fill).all()
        assert np.array_equal(np.sort(ids[:, :7], axis=1), np.tile(np.arange(7), (len(queries), 1)))


def test_equal_vectors_come_by_their_ids():
    vectors = np.tile(np.float32([[1, 2, 3, 4]]), (300, 1))
    ids = np.random.default_rng(0).permutation(300)
    index = pcpq.build(vectors, ids, metric="dot", n_lists=1)
    assert index.search(vectors[0], k=20, rerank=300).ids.tolist() == list(range(20))


def test_vectors_added_later_are_found(data):
    vectors, queries = data
    index = pcpq.Index(metric="dot", keep="float32", n_lists=20).fit(vectors)
    assert len(index) == 0
    assert (index.search(queries[0]).ids == -1).all()
    first = index.add(vectors[:2500])
    second = index.add(iter([vectors[2500:3000], vectors[3000:]]))
    assert np.array_equal(np.concatenate([first, second]), np.arange(4000))
    found = index.search(queries, probes=20, rerank=4000).ids
    assert np.array_equal(found, exact(vectors, queries, "dot", 10)[1])
    assert 3999 in index
    assert 4000 not in index


def test_an_iterator_builds_the_index_that_the_array_builds(data, tmp_path):
    vectors, queries = data
    np.save(tmp_path / "vectors.npy", vectors)
    wanted = pcpq.build(vectors, metric="cosine").search(queries)
    mapped = pcpq.build(np.load(tmp_path / "vectors.npy", mmap_mode="r"), metric="cosine").search(queries)
    assert np.array_equal(wanted.ids, mapped.ids)
    batches = (vectors[i : i + 900] for i in range(0, 4000, 900))
    assert recall(pcpq.build(batches, metric="cosine").search(queries).ids, wanted.ids) > 0.9


def test_kept_vectors_come_back(data):
    vectors, _ = data
    for metric, keep, tolerance in (("dot", "float32", 0), ("euclidean", "int16", 1e-4), ("dot", None, 0.5)):
        index = pcpq.build(vectors, metric=metric, keep=keep, n_lists=20)
        found = index.reconstruct([5, 3999, 0])
        assert np.abs(found - vectors[[5, 3999, 0]]).max() <= tolerance * np.abs(vectors).max()
    with pytest.raises(KeyError, match="4000"):
        index.reconstruct([4000])


def test_norms_over_orders_of_magnitude_do_not_break_the_lists():
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(5000, 16)) * generator.lognormal(sigma=2.5, size=(5000, 1))
    queries = generator.normal(size=(50, 16))
    index = pcpq.build(vectors, metric="dot", n_lists=70)
    truth = exact(vectors, queries, "dot", 10)[1]
    assert recall(index.search(queries, probes=20).ids, truth) > 0.85


@pytest.mark.parametrize("scale", [1e-18, 1e15])
def test_numbers_of_any_size(scale, data):
    vectors, queries = (rows.astype(np.float64) * scale for rows in data)
    index = pcpq.build(vectors, metric="dot", n_lists=20)
    scores, ids = index.search(queries, probes=20, rerank=500)
    expected, rows = exact(vectors, queries, "dot", 10)
    assert recall(ids, rows) > 0.97
    assert np.allclose(scores[:, 0], expected[:, 0], rtol=1e-3)


def test_stats_count_bytes(data):
    vectors, _ = data
    stats = pcpq.build(vectors, metric="dot", n_lists=20).stats()
    assert stats["vectors"] == 4000
    assert stats["lists"] == 20
    assert stats["bytes_per_vector"]["kept"] == 2 * 20 + 4
    assert 6 <= stats["bytes_per_vector"]["codes"] < 8
    assert stats["imbalance"] >= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v, q: pcpq.build(v, metric="manhattan"), "metric is 'manhattan'"),
        (lambda v, q: pcpq.build(v, metric="dot", keep="int4"), "keep is 'int4'"),
        (lambda v, q: pcpq.build(v, metric="dot", n_lists=0), "n_lists is 0"),
        (lambda v, q: pcpq.build(v[:0], metric="dot"), "vectors are empty"),
        (lambda v, q: pcpq.build(v, [1, 2], metric="dot"), r"ids have shape \(2,\)"),
        (lambda v, q: pcpq.build(v[:3], [1, 2, 1], metric="dot"), "id 1 is given twice"),
        (lambda v, q: pcpq.build(v[:3], [1, 2, -5], metric="dot"), "id -5 is negative"),
        (lambda v, q: pcpq.build(v * np.float32("nan"), metric="dot"), r"vectors\[0, 0\] is nan"),
        (lambda v, q: pcpq.build(v * 0, metric="cosine"), r"vectors\[0\] is zero"),
        (
            lambda v, q: pcpq.build(v, metric="dot").search(q[:, :3]),
            "have 3 dimensions, the index has 20",
        ),
        (lambda v, q: pcpq.build(v, metric="dot").search(q, k=0), "k is 0"),
        (lambda v, q: pcpq.build(v, metric="dot").search(q, probes=0), "probes is 0"),
        (lambda v, q: pcpq.Index(metric="dot").search(q), "not fitted"),
    ],
)
def test_bad_input_is_named(call, message, data):
    with pytest.raises(ValueError, match=message):
        call(data[0][:100], data[1])


@pytest.mark.linux
@pytest.mark.unsanitized
def test_memory_does_not_grow_over_100_000_searches():
    vectors = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    index = pcpq.build(vectors, metric="dot", n_lists=20)

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def search(times):
        for i in range(times):
            index.search(vectors[i % 3000], k=3, probes=2, rerank=5)
            if i % 100 == 0:
                index.search(vectors[:64], k=3, probes=2, rerank=5, threads=1 + i // 100 % 2)

    search(5_000)
    before = resident()
    search(100_000)
    assert resident() - before < 4 << 20


def test_two_threads_search_while_a_third_builds_another_index(data):
    vectors, queries = data
    index = pcpq.build(vectors, metric="cosine")
    expected = index.search(queries)
    wrong, done = [], threading.Event()

    def search():
        while not done.is_set():
            batch = index.search(queries, threads=1)
            single = index.search(queries[0])
            if not (np.array_equal(batch.ids, expected.ids) and np.array_equal(single.ids, expected.ids[0])):
                wrong.append(batch)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    built = [pcpq.build(vectors, metric="cosine", threads=2) for _ in range(2)]
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    for other in built:
        assert np.array_equal(other.search(queries).ids, expected.ids)
