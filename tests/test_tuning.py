"""target_recall: what a build measures, and that searches reach it."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from reference import exact
from small_indexes import without_weights

import pcpq
from pcpq import _core
from pcpq.ivf.probing import RankedLists
from pcpq.search.queries import prepare_queries
from pcpq.tuning.ground_truth import ExactAnswers, Truth, TuningQueries
from pcpq.tuning.measure import measure, measure_index

TARGETS = (0.8, 0.9, 0.95, 0.99)


def crowds(seed, n, dimensions=24, spread=1.0):
    """Return vectors in overlapping clusters."""
    generator = np.random.default_rng(seed)
    places = np.random.default_rng(0).normal(size=(300, dimensions))
    return (places[generator.integers(0, 300, n)] + spread * generator.normal(size=(n, dimensions))).astype(
        np.float32
    )


def between(vectors, n):
    """Return queries halfway between two unrelated vectors."""
    return 0.5 * (vectors[:n] + vectors[n : 2 * n])


N = 10_000


@pytest.fixture(scope="module")
def vectors():
    return crowds(1, N)


@pytest.fixture(scope="module")
def queries():
    return crowds(2, 400)


def shares(found, true_ids):
    """(n,) the share of true ids found."""
    pairs = zip(found, true_ids, strict=True)
    return np.array([len(set(a) & set(b)) / len(b) for a, b in pairs])


def kept(recalls, target):
    """Whether recall is at most a hundredth, or two standard errors, under its target."""
    return recalls.mean() >= target - max(0.01, 2 * recalls.std() / len(recalls) ** 0.5)


def promise(index, queries, true_ids, k, target):
    return kept(shares(index.search(queries, k, target_recall=target).ids, true_ids[:, :k]), target)


@pytest.mark.parametrize("metric", ["dot", "cosine", "euclidean"])
def test_searches_find_what_they_aim_at(metric, vectors, queries):
    index = pcpq.build(vectors, metric=metric)
    true = exact(vectors, queries, metric, 100)[1]
    for k in (1, 10, 100):
        for target in TARGETS:
            assert promise(index, queries, true, k, target), (k, target)


def test_less_is_asked_for_less_recall(vectors):
    index = pcpq.build(vectors, metric="cosine")
    scanned = [index.explain(vectors[0], target_recall=target)["rows_scanned"] for target in TARGETS]
    assert scanned == sorted(scanned)
    assert scanned[0] < 0.3 * scanned[-1]
    assert index.explain(vectors[0])["rows_scanned"] == scanned[2]  # the usual target is 0.95


def test_queries_of_another_kind_need_to_be_given(vectors):
    far_queries = between(vectors, 600)
    tune, test = far_queries[0::2], far_queries[1::2]
    true = exact(vectors, test, "euclidean", 10)[1]
    index = pcpq.build(vectors, metric="euclidean", n_lists=400)
    with pytest.warns(pcpq.RecallWarning, match="tune"):
        assert not promise(index, test, true, 10, 0.95)
    index.tune(tune)
    assert promise(index, test, true, 10, 0.95)
    told = pcpq.build(vectors, metric="euclidean", n_lists=400, queries=tune)
    assert promise(told, test, true, 10, 0.95)


def test_words_and_scattered_ids_are_measured_alike(vectors):
    curves = []
    for ids in (None, np.arange(N) * 1_000_003, [f"word {i}" for i in range(N)]):
        curves.append(pcpq.build(vectors, ids, metric="dot")._state.snapshot.recall)
    for curve in curves[1:]:
        assert np.array_equal(curve.means, curves[0].means)


def test_iterators_are_measured_too(vectors, queries):
    index = pcpq.build((vectors[i : i + 3000] for i in range(0, N, 3000)), metric="dot")
    assert promise(index, queries, exact(vectors, queries, "dot", 10)[1], 10, 0.9)


def test_recall_survives_the_disk(vectors, tmp_path):
    index = pcpq.build(vectors, metric="cosine")
    index.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index") as again:
        for target in TARGETS:
            lists = [i.explain(vectors[0], target_recall=target)["lists_probed"] for i in (index, again)]
            assert abs(lists[0] - lists[1]) <= 1


def test_tuning_again_is_kept_by_a_commit(vectors, tmp_path):
    pcpq.build(vectors, metric="euclidean", n_lists=400).save(tmp_path / "index")
    far_queries = between(vectors, 300)
    with pcpq.open(tmp_path / "index", mode="a") as index:
        before = np.mean([index.explain(query)["lists_probed"] for query in far_queries])
        index.tune(far_queries)
        index.commit()
    with pcpq.open(tmp_path / "index") as index:
        assert np.mean([index.explain(query)["lists_probed"] for query in far_queries]) > 1.2 * before


def test_indexes_in_several_parts_are_measured_as_they_are_searched(vectors, queries):
    index = pcpq.build(vectors[:6000], metric="dot")
    index.add(vectors[6000:])
    index.remove(np.arange(0, N, 7))
    curve = index.tune(queries[:200])
    left = np.flatnonzero(np.arange(N) % 7)
    true = left[exact(vectors[left], queries[200:], "dot", 10)[1]]
    assert curve.kind == "given"
    for target in TARGETS:
        assert promise(index, queries[200:], true, 10, target)


def test_an_index_is_measured_by_the_first_search_for_a_recall(vectors):
    index = pcpq.Index(metric="dot").fit(vectors)
    index.add(vectors)
    assert index._state.snapshot.recall is None
    index.search(vectors[:2], target_recall=0.9)
    assert index._state.snapshot.recall.kind == "held out"


def test_a_refit_measures_anew(vectors):
    index = pcpq.build(vectors, metric="dot")
    before = index._state.snapshot.recall
    index.refit().result()
    after = index._state.snapshot.recall
    assert after is not None
    assert after is not before


def test_codes_alone_warn_where_they_cannot_reach(vectors):
    index = pcpq.build(vectors, metric="dot", keep=None, quantizer=pcpq.PQ(section_size=4))
    with pytest.warns(
        UserWarning, match=r"a recall of 0.99 at k=10 is out of reach with codes alone; about 0\.\d+ is"
    ):
        index.search(vectors[:3], target_recall=0.99)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.search(vectors[:3])  # the usual target is no promise
        index.search(vectors[:3], target_recall=0.3)


def test_the_warning_names_the_line_that_searched(vectors):
    index = pcpq.build(vectors[:5000], metric="dot", keep=None, quantizer=pcpq.PQ(section_size=8))
    for k, asked in ((10, vectors[0]), (11, vectors[:2]), (12, vectors[0].astype(np.float64))):
        with pytest.warns(UserWarning, match="out of reach") as caught:
            index.search(asked, k, target_recall=1.0)
        assert [warning.filename for warning in caught] == [__file__]


def test_codes_alone_are_tuned_by_given_answers(vectors, queries):
    index = pcpq.build(vectors, metric="dot", keep=None)
    with pytest.raises(ValueError, match="keeps no vectors has no ground truth"):
        index.tune(queries)
    with pytest.raises(ValueError, match=r"truth has shape \(5, 10\) for 400 queries"):
        index.tune(queries, truth=np.zeros((5, 10), int))
    curve = index.tune(queries, truth=exact(vectors, queries, "dot", 100)[1])
    reached = curve.choose(10, 1.0)
    found = index.search(queries, 10, probes=reached.probes, rerank=reached.rerank).ids
    assert shares(found, exact(vectors, queries, "dot", 10)[1]).mean() == pytest.approx(
        reached.recall, abs=0.01
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_recall": 0.9, "probes": 3}, "target_recall is 0.9 and probes is 3"),
        ({"target_recall": 0.0}, "target_recall is 0.0"),
        ({"target_recall": 1.5}, "target_recall is 1.5"),
        ({"target_recall": float("nan")}, "target_recall is nan"),
    ],
)
def test_bad_targets_are_named(options, message, vectors):
    index = pcpq.build(vectors[:4000], metric="dot")
    for asked in (vectors[0], vectors[:2]):
        with pytest.raises(ValueError, match=message):
            index.search(asked, **options)


def test_few_vectors_have_nothing_to_tune(vectors):
    index = pcpq.build(vectors[:1500], metric="dot")
    assert index._state.snapshot.recall is None
    found = index.search(vectors[:50], target_recall=0.8).ids
    assert np.array_equal(np.sort(found), np.sort(exact(vectors[:1500], vectors[:50], "dot", 10)[1]))
    with pytest.raises(ValueError, match="1500 vectors are searched exactly"):
        index.tune()


def test_distances_far_from_the_origin_are_measured_as_near_it(vectors, queries):
    far = np.float32(500)
    index = pcpq.build(vectors + far, metric="euclidean")
    assert promise(index, queries + far, exact(vectors, queries, "euclidean", 10)[1], 10, 0.9)


def test_recall_of_lists_that_are_gone_is_forgotten(vectors, queries):
    index = pcpq.build(vectors, metric="dot", n_lists=100)
    snapshot = index._state.snapshot
    index.refit().result()
    before = index._state.snapshot.recall
    index._state.set_recall_curve(snapshot.recall, snapshot.trained)
    assert index._state.snapshot.recall is before


def test_many_threads_that_ask_measure_once(vectors, monkeypatch):
    index = pcpq.Index(metric="dot").fit(vectors)
    index.add(vectors)
    measured = []

    def counted(*arguments):
        measured.append(1)
        return measure_index(*arguments)

    monkeypatch.setattr("pcpq.index.measure_index", counted)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: index.search(vectors[i], target_recall=0.9), range(8)))
    assert len(measured) == 1
    with pytest.raises(ValueError, match="target_recall is 7"):
        index.search(vectors[0], target_recall=7)


def test_all_of_few_vectors_are_probed_with_any_rerank(vectors):
    index = pcpq.build(vectors[:1500], metric="euclidean")
    found = index.search(vectors[:50], 10, target_recall=0.99, rerank=200).ids
    assert shares(found, exact(vectors[:1500], vectors[:50], "euclidean", 10)[1]).mean() > 0.98
    limits, _, ids = index.search_range(vectors[:5], max_distance=30.0)
    distances = np.square(vectors[:5, None].astype(np.float64) - vectors[None, :1500]).sum(axis=2)
    assert len(ids) == limits[-1] == (distances <= 30).sum()


def test_more_results_than_were_measured_get_more_lists(vectors, queries):
    index = pcpq.build(vectors, metric="dot")
    found = index.search(queries[:50], 400, target_recall=0.9).ids
    assert shares(found, exact(vectors, queries[:50], "dot", 400)[1]).mean() > 0.85


def test_answers_that_all_score_alike_do_not_count():
    vectors = np.repeat(crowds(6, 30), 200, axis=0)
    vectors[:1000] = crowds(7, 1000)
    index = pcpq.build(vectors, metric="euclidean", n_lists=20, keep="float32")
    assert index._state.snapshot.recall.means[2, -1, -1] > 0.99


def test_answers_of_words_may_be_fewer(vectors, queries):
    words = [f"word {i}" for i in range(N)]
    index = pcpq.build(vectors, words, metric="dot")
    truth = np.array(words, object)[exact(vectors, queries, "dot", 20)[1]]
    truth[:, 15:] = None
    assert index.tune(queries, truth=truth).kind == "given"
    with pytest.raises(ValueError, match="without its queries"):
        index.tune(truth=truth)


def test_equal_vectors_are_equally_good_answers():
    vectors = np.repeat(crowds(5, 2000), 3, axis=0)
    index = pcpq.build(vectors, metric="euclidean", keep="float32", n_lists=10)
    curve = index._state.snapshot.recall
    # Which of three equal vectors comes first means nothing.
    assert curve.means[0, -1, -1] == 1


def test_exact_answers_are_those_of_brute_force(vectors, queries):
    for metric in ("dot", "cosine", "euclidean"):
        trained = pcpq.build(vectors[:5000], metric=metric)._state.snapshot.trained
        asked = TuningQueries(queries[:50], np.full(50, -1), "given")
        answers = ExactAnswers(trained, asked)
        for start in range(0, N, 7000):
            answers.observe(vectors[start : start + 7000], start)
        true = exact(vectors, queries[:50], metric, 100)[1]
        assert shares(answers.truth().ids, true).mean() > 0.9999  # float32 may swap the last two


def test_a_query_is_no_answer_to_itself(vectors):
    trained = pcpq.build(vectors[:5000], metric="euclidean")._state.snapshot.trained
    own = np.arange(0, 5000, 50)
    answers = ExactAnswers(trained, TuningQueries(vectors[own], own, "held out"))
    answers.observe(vectors[:5000], 0)
    assert not (answers.truth().ids == own[:, None]).any()


@pytest.mark.kernels
def test_what_is_measured_is_what_searches_find(vectors, queries):
    """The curve comes from one scan of all lists; searches of some lists must agree with it."""
    index = pcpq.build(vectors, metric="dot", keep="float32")
    snapshot = index._state.snapshot
    true = exact(vectors, queries, "dot", 100)[1]
    asked = TuningQueries(queries, np.full(len(queries), -1), "given")
    curve = index._state.set_recall_curve(measure(snapshot, asked, Truth.of(true)), snapshot.trained)
    for k, number in ((1, 0), (10, 2), (100, 4)):
        # Of a hundred results, a query that finds fewer in its lists probes more lists.
        places, more = ((2, 5, 8), 0.02) if k < 100 else ((10, 12), 0.04)
        for i in places:
            for j in (1, 4):
                rerank = max(k, int(np.ceil(k * curve.candidates[j])))
                found = index.search(queries, k, probes=curve.probes[i], rerank=rerank).ids
                # Rows far down in the scan of all lists are not candidates, though some lists would show them.
                assert -0.01 < shares(found, true[:, :k]).mean() - curve.means[number, i, j] < more


def test_lists_come_in_the_order_in_which_searches_probe_them(vectors, queries):
    index = without_weights(pcpq.build(vectors, metric="dot", n_lists=50))
    snapshot = index._state.snapshot
    trained = snapshot.trained
    rows = prepare_queries(trained, queries).rows
    order = RankedLists.of(trained.partition, trained.coarse, trained.metric, rows).places
    sizes = np.diff(snapshot.parts[0].segment.blocks.rows)
    scanned = [index.explain(query, probes=3)["rows_scanned"] for query in queries[:100]]
    expected = [sizes[places < 3].sum() for places in order[:100]]
    # Native code ranks lists by rounded centroids, and may swap two that are nearly alike.
    assert np.mean(np.array(scanned) == expected) > 0.98


@pytest.mark.kernels
def test_hostile_candidates_are_refused():
    arguments = {name: np.zeros((1, 2), np.int32) for name in ("scanned", "lists", "ranks")}
    settings = {"parts": [0], "results": [1], "probes": [1], "reranks": [[1]]}
    arguments |= {name: np.array(values, np.int32) for name, values in settings.items()}
    arguments |= {name: np.empty((1, 1, 1)) for name in ("out_hits", "out_squares")}
    arguments["scanned"][0, 1] = 2
    with pytest.raises(ValueError, match="a place is out of range"):
        _core.sum_recalls(**arguments)
    arguments["scanned"][0, 1] = 1
    _core.sum_recalls(**arguments)
    with pytest.raises(ValueError, match="results are not positive"):
        _core.sum_recalls(**arguments | {"results": np.zeros(1, np.int32)})
    with pytest.raises(ValueError, match="parts do not follow each other"):
        _core.sum_recalls(**arguments | {"parts": np.array([3], np.int32)})
