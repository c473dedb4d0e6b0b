"""Attributes that a search returns with its results."""

import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest

import pcpq

N = 1200


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(4).normal(size=(N, 8)).astype(np.float32)


@pytest.fixture(scope="module", params=["int", "str"])
def index(request, vectors):
    """An index of several segments: the last one has no attributes, the second one lacks `title`."""
    named = (
        (lambda numbers: numbers) if request.param == "int" else (lambda numbers: [f"n{i}" for i in numbers])
    )
    numbers = np.arange(N)
    columns = {
        "year": 2000 + numbers,
        "title": pa.array([f"title {i}" for i in numbers]),
        "tags": [[str(i)] for i in numbers],
        "place": [{"town": f"t{i}"} for i in numbers],
        "kind": pa.array([f"k{i % 3}" for i in numbers]).dictionary_encode(),
    }
    index = pcpq.Index(metric="dot", n_lists=10, keep="float32").fit(vectors)
    index.add(
        vectors[:1060],
        named(numbers[:1060]),
        attributes={name: column[:1060] for name, column in columns.items()},
    )
    some = slice(1060, 1180)
    index.add(vectors[some], named(numbers[some]), attributes={"year": columns["year"][some]})
    index.add(vectors[1180:], named(numbers[1180:]))
    index.remove(named([5]))
    assert index.stats()["segments"] == 3
    return index


def numbers_of(ids):
    return [-1 if one in (-1, None) else int(str(one).lstrip("n")) for one in ids.ravel().tolist()]


def test_selected_columns_come_with_the_hits_in_their_order(index, vectors):
    found = index.search(vectors[:40], 30, select=["title", "year"])
    scores, ids = found
    assert found.attributes.column_names == ["title", "year"]
    numbers = numbers_of(ids)
    assert scores.shape == ids.shape == (40, 30)
    assert max(numbers) >= 1180
    assert found.attributes["year"].to_pylist() == [2000 + i if i < 1180 else None for i in numbers]
    assert found.attributes["title"].to_pylist() == [f"title {i}" if i < 1060 else None for i in numbers]
    plain = index.search(vectors[:40], 30)
    assert np.array_equal(plain.ids, ids)
    assert plain.attributes is None


def test_a_single_query_without_filters_has_attributes_too(vectors):
    index = pcpq.build(vectors, metric="dot", attributes={"year": np.arange(N)})
    for query in (vectors[3], vectors[3].astype(np.float64), vectors[3:4]):
        index.search(query, 5)  # its plan is used again
        found = index.search(query, 5, select="year")
        assert found.attributes["year"].to_pylist() == found.ids.ravel().tolist()
    assert index.search(vectors[3], 5, select=False).attributes is None


def test_rows_of_missing_results_are_null(index, vectors):
    found = index.search(vectors[:2], 4, where="year < 2002", select=True)
    assert found.attributes.column_names == ["year", "title", "tags", "place", "kind"]
    rows = found.attributes.to_pylist()
    assert len(rows) == 8
    for number, row in zip(numbers_of(found.ids), rows, strict=True):
        full = {"year": 2000 + number, "title": f"title {number}", "tags": [str(number)]}
        full |= {"place": {"town": f"t{number}"}, "kind": f"k{number % 3}"}
        assert row == (full if number >= 0 else dict.fromkeys(full))
    assert numbers_of(found.ids).count(-1) == 4
    assert (
        index.search(vectors[:2], 4, filter=[], select="*").attributes.to_pylist() == [dict.fromkeys(full)] * 8
    )


def test_unknown_columns_are_named_with_those_that_exist(index, vectors):
    with pytest.raises(
        ValueError, match="select names nope, Year; the columns are year, title, tags, place, kind"
    ):
        index.search(vectors[0], select=["nope", "year", "Year"])
    for wrong in ([], 7, b"year"):
        with pytest.raises(ValueError, match="expected names of columns"):
            index.search(vectors[0], select=wrong)
    with pytest.raises(ValueError, match="has no attributes"):
        pcpq.build(vectors, metric="dot").search(vectors[0], select=True)


def test_an_index_without_vectors_has_no_rows_to_return(vectors):
    index = pcpq.Index(metric="dot").fit(vectors)
    found = index.search(vectors[:2], 3, select=["year", "title", "year"])
    assert found.attributes.to_pylist() == [{"year": None, "title": None}] * 6


def test_a_result_with_attributes_is_pickled_and_copied_with_them(index, vectors):
    found = index.search(vectors[:3], 4, select="year")
    for again in (pickle.loads(pickle.dumps(found)), copy.copy(found)):
        assert isinstance(again, pcpq.Result)
        assert again.attributes.equals(found.attributes)
        assert np.array_equal(again.scores, found.scores)
