"""What an index holds, read back: ids, schema, and batches of one snapshot."""

import numpy as np
import pyarrow as pa
import pytest

import pcpq

N = 700


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(2).normal(size=(N + 1, 6)).astype(np.float32)


@pytest.fixture(params=["int", "str"])
def named(request):
    """Return ids of a kind for numbers."""
    if request.param == "int":
        return lambda numbers: np.asarray(numbers)
    return lambda numbers: [f"n{number}" for number in numbers]


@pytest.fixture(params=["float32", None])
def index(request, vectors, named):
    """An index with rows in several segments, of which some were removed."""
    index = pcpq.Index(metric="euclidean", n_lists=5, keep=request.param).fit(vectors)
    for first, last in ((0, 600), (600, 685)):
        numbers = np.arange(first, last)
        index.add(vectors[numbers], named(numbers), attributes={"year": numbers, "even": numbers % 2 == 0})
    index.add(vectors[685:N], named(np.arange(685, N)))
    index.remove(named([0, 650]))
    assert index.stats()["segments"] == 3
    return index


def left():
    return np.delete(np.arange(N), [0, 650])


def test_ids_are_in_ascending_order_or_in_that_of_additions(index, vectors, named):
    assert index.ids().tolist() == list(named(left()))
    assert index.ids(where="year < 8 AND even").tolist() == list(named([2, 4, 6]))
    assert index.ids(where="year IS NULL").tolist() == list(named(range(685, N)))
    assert index.ids().dtype == (object if isinstance(named([1]), list) else np.int64)
    with pytest.raises(ValueError, match="nope"):
        index.ids(where="nope")
    with pytest.raises(ValueError, match="length of 2"):
        index.ids("year > 3", pcpq.WhereLimits(length=2))


def test_a_string_that_is_upserted_comes_last_and_an_integer_stays(vectors):
    for ids, expected in (([3, 1, 2], [1, 2, 3]), (["c", "a", "b"], ["a", "b", "c"])):
        index = pcpq.build(vectors[:3], ids, metric="dot")
        assert index.ids().tolist() == (sorted(ids) if expected[0] == 1 else ids)
        index.upsert(vectors[:1], ids[:1])
        assert index.ids().tolist() == expected


def test_dimensions_and_attributes(index, vectors):
    assert index.dimensions == 6
    assert index.attributes == pa.schema({"year": pa.int64(), "even": pa.bool_()})
    with pytest.raises(AttributeError):
        index.dimensions = 3
    empty = pcpq.Index(metric="dot")
    with pytest.raises(pcpq.NotFittedError):
        empty.dimensions  # noqa: B018
    empty.fit(vectors)
    assert empty.attributes is None
    assert empty.ids().tolist() == []
    assert list(empty.batches(attributes=True)) == []
    empty.add(vectors)
    assert empty.attributes is None
    with pytest.raises(ValueError, match="no attributes"):
        empty.batches(attributes=True)


@pytest.mark.parametrize("size", [1, 300, N])
def test_batches_hold_everything_once_in_the_order_of_ids(index, named, size):
    parts = list(index.batches(size, attributes=True))
    assert [len(ids) for ids, _, _ in parts][:-1] == [size] * (len(parts) - 1)
    ids = np.concatenate([ids for ids, _, _ in parts])
    assert ids.tolist() == index.ids().tolist()
    assert np.array_equal(np.concatenate([rows for _, rows, _ in parts]), index.reconstruct(ids))
    table = pa.concat_tables([table for _, _, table in parts])
    assert table.schema == index.attributes
    assert table["year"].to_pylist() == [i if i < 685 else None for i in left()]


def test_batches_hold_what_is_wanted(index, vectors, named):
    ids, rows = next(index.batches())
    assert rows.dtype == np.float32
    assert np.array_equal(rows, index.reconstruct(ids))
    ((ids,),) = index.batches(vectors=False)
    assert len(ids) == N - 2
    _, table = next(index.batches(5, vectors=False, attributes=["even"]))
    assert table.to_pydict() == {"even": [False, True, False, True, False]}
    for size in (0, 1.5, None):
        with pytest.raises(ValueError, match="size is"):
            index.batches(size)
    with pytest.raises(ValueError, match="attributes names nope"):
        index.batches(attributes="nope")


def test_batches_are_those_of_the_moment_of_the_call(index, vectors, named):
    batches = index.batches(100, attributes="year")
    index.remove(named([1, 2, 3]))
    index.add(vectors[N:], named([N]), attributes={"year": [-1]})
    index.update(named([4]), {"year": [-1]})
    index.compact()
    parts = list(batches)
    assert np.concatenate([ids for ids, _, _ in parts]).tolist() == list(named(left()))
    years = [year for _, _, table in parts for year in table["year"].to_pylist()]
    assert years == [i if i < 685 else None for i in left()]


def test_an_index_opened_from_files_is_read_back(index, tmp_path):
    index.save(tmp_path / "index")
    with pcpq.open(tmp_path / "index") as opened:
        assert opened.attributes == index.attributes
        for one, other in zip(
            opened.batches(90, attributes=True), index.batches(90, attributes=True), strict=True
        ):
            assert one[0].tolist() == other[0].tolist()
            assert np.array_equal(one[1], other[1])
            assert one[2].equals(other[2])
