"""Results: distances, cosines that are at most 1, empty batches, and how results are shown."""

import copy
import pickle
from html.parser import HTMLParser

import numpy as np
import pytest

import pcpq

pytestmark = pytest.mark.quick
METRICS = ("dot", "cosine", "euclidean")


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(6).normal(size=(2500, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def indexes(vectors):
    return {metric: pcpq.build(vectors, metric=metric, attributes={"n": np.arange(2500)}) for metric in METRICS}


def test_results_unpack_to_scores_and_ids(indexes, vectors):
    result = indexes["dot"].search(vectors[:3], 4)
    scores, ids = result
    assert scores is result.scores
    assert ids is result.ids
    assert len(result) == 2
    assert result._fields == ("scores", "ids")


def test_distances_are_distances_or_an_error(indexes, vectors):
    for queries in (vectors[:3], vectors[0]):
        cosine = indexes["cosine"].search(queries, 4)
        np.testing.assert_array_equal(cosine.distances, 1 - cosine.scores)
        assert cosine.distances.dtype == np.float32
        assert (cosine.distances >= 0).all()
        euclidean = indexes["euclidean"].search(queries, 4)
        np.testing.assert_array_equal(euclidean.distances, euclidean.scores)
        dot = indexes["dot"].search(queries, 4)
        with pytest.raises(AttributeError, match=r"inner products \('dot'\) are no distances; use scores"):
            dot.distances  # noqa: B018
        assert not hasattr(dot, "distances")
    with pytest.raises(AttributeError, match="metric of this result is not known"):
        pcpq.Result(np.zeros(1, np.float32), np.zeros(1, np.int64)).distances  # noqa: B018


def test_missing_results_are_infinitely_far(indexes, vectors):
    found = indexes["cosine"].search(vectors[:2], 5, filter=[1, 2])
    assert (found.ids[:, 2:] == -1).all()
    assert np.isposinf(found.distances[:, 2:]).all()
    assert np.isneginf(found.scores[:, 2:]).all()


def test_the_metric_survives_copies_and_other_ids(indexes, vectors):
    result = indexes["cosine"].search(vectors[:3], 4)
    for again in (copy.copy(result), pickle.loads(pickle.dumps(result)), result._replace(ids=result.ids + 1)):
        assert type(again) is pcpq.Result
        assert again.metric == "cosine"
        np.testing.assert_array_equal(again.scores, result.scores)


@pytest.mark.parametrize("keep", ["int8", "int16", "float16", "float32", None])
def test_cosines_are_from_minus_one_to_one(keep, vectors):
    index = pcpq.build(vectors, metric="cosine", keep=keep)
    for queries in (vectors, -vectors):
        batch = index.search(queries, 10, probes=1000)
        assert batch.scores.max() <= 1
        assert batch.scores.min() >= -1
        for row in range(0, len(queries), 100):
            single = index.search(queries[row], 10, probes=1000)
            np.testing.assert_array_equal(single.scores, batch.scores[row])
            np.testing.assert_array_equal(single.ids, batch.ids[row])
    limits, scores, _ids = index.search_range(vectors[:200], min_score=0.9, probes=1000)
    assert scores.max() <= 1
    for row, single in enumerate(index.search(vectors[:200], 1, probes=1000).scores):
        if limits[row] < limits[row + 1]:
            assert scores[limits[row]] == single[0]


@pytest.mark.parametrize("metric", METRICS)
def test_no_queries_have_no_results(metric, indexes, vectors):
    index = indexes[metric]
    for empty in (vectors[:0], [], np.empty((0, 0)), vectors[:0].astype(np.float64)):
        for options in ({}, {"where": "n > 3"}, {"filter": [1]}, {"probes": 3}, {"target_recall": 0.5}):
            result = index.search(empty, 7, **options)
            assert result.scores.shape == result.ids.shape == (0, 7)
            assert result.scores.dtype == np.float32
            assert result.ids.dtype == np.int64
        bound = {"max_distance": 1.0} if metric == "euclidean" else {"min_score": 0.5}
        limits, scores, ids = index.search_range(empty, **bound)
        assert limits.tolist() == [0]
        assert len(scores) == len(ids) == 0
    with pytest.raises(ValueError, match="k is 0"):
        index.search(vectors[:0], 0)
    with pytest.raises(ValueError, match="queries are empty"):
        index.search(vectors[:0, :5])


def test_no_queries_have_no_string_ids(vectors):
    index = pcpq.build(vectors[:50], [f"n{number}" for number in range(50)], metric="dot")
    assert index.search(vectors[:0], 3).ids.shape == (0, 3)


def test_results_are_shown_in_one_line(indexes, vectors):
    index = indexes["cosine"]
    assert repr(index.search(vectors[:3], 5)).startswith("Result(3 queries, k=5, cosine: 5 hits: 0 (1), ")
    assert repr(index.search(vectors[:0], 5)) == "Result(0 queries, k=5, cosine)"
    assert repr(index.search(vectors[7], 1)) == "Result(1 hit: 7 (1), cosine)"
    assert repr(index.search(vectors[7], 2, filter=[])) == "Result(no hits, cosine)"
    for queries in (vectors, vectors[0]):
        assert len(repr(index.search(queries, 100))) < 120


class Cells(HTMLParser):
    """The texts of the cells of each row, and all tags."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.open, self.tags, self.inside = [], [], [], False
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.append(tag)
        assert not any(name in ("src", "href") or name.startswith("on") for name, _ in attributes)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_notebooks_show_hits_as_a_table(indexes, vectors):
    result = indexes["euclidean"].search(vectors[:2], 3)
    shown = Cells(result._repr_html_())
    assert shown.rows[0] == ["query", "rank", "id", "squared distance"]
    assert [row[2] for row in shown.rows[1:]] == [str(one) for one in result.ids.ravel()]
    assert [row[0] for row in shown.rows[1:]] == ["0", "", "", "1", "", ""]
    single = Cells(indexes["dot"].search(vectors[0], 100)._repr_html_())
    assert single.rows[0] == ["rank", "id", "score"]
    assert len(single.rows) == 11
    many = indexes["dot"].search(vectors, 50)._repr_html_()
    assert len(Cells(many).rows) == 51
    assert "2,500 queries, k=50; at most 10 hits" in many
    assert Cells(indexes["dot"].search(vectors[:0], 3)._repr_html_()).rows == [["query", "rank", "id", "score"]]


def test_ids_are_escaped_in_notebooks(vectors):
    names = [f"<script>alert({number})</script>&" for number in range(20)]
    html = pcpq.build(vectors[:20], names, metric="dot").search(vectors[0], 20)._repr_html_()
    shown = Cells(html)
    assert set(shown.tags) <= {"div", "style", "strong", "table", "thead", "tbody", "tr", "th", "td", "small"}
    assert {row[1] for row in shown.rows[1:]} <= set(names)


def test_an_index_is_shown_by_its_size_and_settings(vectors, tmp_path):
    assert repr(pcpq.Index(metric="dot")) == "Index(metric='dot', vectors=0, keep='int16', state='not fitted')"
    index = pcpq.build(vectors, metric="cosine", attributes={"n": np.arange(2500)})
    parts = index.stats()["bytes_per_vector"]
    expected = round(sum(parts.values()) - parts["attributes"], 1)
    assert repr(index) == (
        "Index(metric='cosine', vectors=2500, keep='int16', dimensions=12, lists=100, "
        f"bytes_per_vector={expected})"
    )
    path = tmp_path / "<b>index</b>"
    index.save(path)
    with pcpq.open(path) as stored:
        assert repr(stored) == repr(index)[:-1] + f", path={str(path)!r})"
        facts = dict(Cells(stored._repr_html_()).rows)
    assert (
        repr(stored) == f"Index(metric='cosine', vectors=0, keep='int16', state='closed', path={str(path)!r})"
    )
    assert facts["vectors"] == "2,500"
    assert facts["bytes per vector"] == str(expected)
    assert facts["path"] == str(path)
    small = pcpq.build(vectors, metric="dot", bytes_per_vector=30)
    assert dict(Cells(small._repr_html_()).rows)["chosen"] == small.stats()["chosen"]


def test_bitmaps_are_shown_by_their_number_of_ids():
    assert repr(pcpq.Bitmap([3, 1, 2, 9])) == "Bitmap(4 ids: 1, 2, 3, ...)"
    assert repr(~pcpq.Bitmap(["a"])) == "~Bitmap(1 ids: 'a')"
    assert repr(pcpq.Bitmap([])) == "Bitmap(0 ids)"
