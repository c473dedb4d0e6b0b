"""Queries unlike the vectors: a warning says that recall is lower than target_recall, once."""

import pickle
import warnings

import numpy as np
import pytest
from reference import exact
from test_tuning import between, crowds, shares

import pcpq
from pcpq.index import state_of
from pcpq.ivf.probing import Probing
from pcpq.search.execute import execute
from pcpq.search.recall_check import (
    EVERY,
    MOST_CHECKED,
    MOST_IN_ALL,
    MOST_SETTINGS,
    CheckedSample,
    observed_recalls,
)

N = 10_000


@pytest.fixture(scope="module")
def vectors():
    return crowds(1, N)


@pytest.fixture(scope="module")
def stored(vectors, tmp_path_factory):
    path = tmp_path_factory.mktemp("recall") / "index"
    pcpq.build(vectors, metric="euclidean").save(path)
    return path


@pytest.fixture
def index(stored):
    with pcpq.open(stored) as opened:
        yield opened


@pytest.fixture(scope="module")
def like():
    return crowds(2, 2500)


@pytest.fixture(scope="module")
def unlike(vectors):
    return between(between(vectors, 4000), 2000)[:1500]


def warned(index, queries, **options):
    """Return the messages of the warnings of a search."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        index.search(queries, **options)
    assert all(one.category is pcpq.RecallWarning for one in caught)
    return [str(one.message) for one in caught]


def checked(index):
    """Return the number of queries that were checked."""
    samples = state_of(index).snapshot.recall.check._samples.values()
    return sum(len(sample.recalls) for sample in samples)


def test_a_warning_tells_the_recall_of_queries_unlike_the_vectors_and_names_tune(index, vectors, unlike):
    (message,) = warned(index, unlike, target_recall=0.9)
    _, true_ids = exact(vectors, unlike[:300], "euclidean", 10)
    recall = shares(index.search(unlike[:300], target_recall=0.9).ids, true_ids).mean()
    assert recall < 0.85
    assert "tune(queries)" in message
    told = float(message.split("find about ")[1].split()[0])
    assert abs(told - recall) < 0.05


def test_the_default_target_is_checked_too(index, unlike):
    assert len(warned(index, unlike)) == 1


@pytest.mark.parametrize("target", [0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("k", [1, 10, 100])
def test_queries_like_the_vectors_cause_no_warning(index, like, k, target):
    assert warned(index, like, k=k, target_recall=target) == []
    assert 0 < checked(index) <= MOST_CHECKED


def test_the_check_ends_early_if_recall_is_as_expected(index, like):
    for query in like:
        index.search(query)
    assert 32 <= checked(index) <= MOST_CHECKED // 4


def test_the_check_goes_on_while_recall_may_be_low(index, like, unlike):
    for number in range(400):  # recall of such a mixture is lower than expected, but not by much
        assert warned(index, unlike[number] if number % 4 == 0 else like[number]) == []
    few = checked(index)
    for query in like[:400]:
        index.search(query)
    assert checked(index) > few


def test_the_warning_comes_once_for_all_settings_and_changes(stored, unlike, tmp_path):
    with pcpq.open(stored) as opened:
        opened.save(tmp_path / "own")
    with pcpq.open(tmp_path / "own", mode="a") as writer:
        assert len(warned(writer, unlike)) == 1
        writer.remove([3])
        assert warned(writer, unlike) + warned(writer, unlike, target_recall=0.8, k=5) == []


def test_single_queries_are_checked_as_batches_are(index, unlike):
    messages = [message for query in unlike[:400] for message in warned(index, query)]
    assert len(messages) == 1


def test_the_warning_names_the_line_of_the_caller(index, unlike):
    with pytest.warns(pcpq.RecallWarning) as caught:
        index.search(unlike)
    assert caught[0].filename == __file__


def test_tuned_indexes_chosen_probes_and_filters_are_not_checked(index, unlike):
    assert warned(index, unlike, probes=1) == []
    assert warned(index, unlike, filter=range(N // 2)) == []
    assert checked(index) == 0
    index.tune(unlike)
    assert warned(index, unlike) == []
    assert checked(index) == 0


def test_a_repeated_query_is_checked_once(index, unlike):
    for _ in range(3):
        assert warned(index, np.repeat(unlike[:1], 200, axis=0)) == []
        assert warned(index, unlike[0]) == []
    assert checked(index) == 1


def test_answers_do_not_depend_on_the_check(index, stored, unlike):
    with pytest.warns(pcpq.RecallWarning):
        first = index.search(unlike)
    again = index.search(unlike)
    with pcpq.open(stored) as fresh:
        alone = [fresh.search(query) for query in unlike[:20]]
    np.testing.assert_array_equal(first.ids, again.ids)
    np.testing.assert_array_equal(first.scores, again.scores)
    np.testing.assert_array_equal(first.ids[:20], [one.ids for one in alone])


def test_the_number_of_checked_queries_and_settings_is_bounded(index, like):
    for k in range(1, 601):
        index.search(like[:40], k=k)
    assert checked(index) == MOST_IN_ALL
    for k in range(601, MOST_SETTINGS + 100):
        index.search(like[0], k=k)
    samples = state_of(index).snapshot.recall.check._samples
    assert checked(index) == MOST_IN_ALL
    assert len(samples) <= MOST_SETTINGS


def test_equal_vectors_are_as_good_as_each_other(vectors):
    copies = np.repeat(vectors[:1000], 20, axis=0)  # more copies than results: which of them is found is chance
    index = pcpq.build(copies, metric="euclidean")
    assert warned(index, vectors[:1000], target_recall=0.8) == []
    assert 0 < checked(index) <= 1000 // EVERY


def test_observed_recall_is_one_if_all_lists_are_probed(index, like):
    snapshot = state_of(index).snapshot
    index.search(like[:1])
    plan = next(iter(snapshot.plan_cache.plans.values()))
    wide = plan._replace(probing=Probing.exactly(len(snapshot.trained.partition)), rerank=1000)

    def search(queries, plan):
        return execute(snapshot, queries, plan)[0]

    assert observed_recalls(search, like[:50], wide, wide).tolist() == [1.0] * 50
    narrow = observed_recalls(search, like[:50], plan._replace(probing=Probing.exactly(1)), wide)
    assert 0 < narrow.mean() < 0.8


def test_a_search_that_was_answered_does_not_fail_with_its_check(index, like, monkeypatch):
    def damaged(self, search, n_lists, queries, plan):
        raise pcpq.FormatError("a page that only the wider search reads")

    monkeypatch.setattr(CheckedSample, "observe", damaged)
    expected = index.search(like[:40], target_recall=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = index.search(like[:40], target_recall=0.9)
    np.testing.assert_array_equal(again.ids, expected.ids)


def test_a_warning_as_an_error_is_raised_once(index, unlike):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pcpq.RecallWarning):
            index.search(unlike)
        assert index.search(unlike).ids.shape == (len(unlike), 10)


def test_an_index_sent_to_another_process_checks_anew(index, unlike):
    with pytest.warns(pcpq.RecallWarning):
        index.search(unlike)
    sent = pickle.loads(pickle.dumps(index))
    assert checked(sent) == 0
    assert len(warned(sent, unlike)) == 1
