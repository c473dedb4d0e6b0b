"""Ids, attributes and vectors are checked before any training, and messages name the cause."""

import sys
import uuid

import numpy as np
import pytest

import pcpq
from pcpq.store.state import State

pytestmark = pytest.mark.quick
METRICS = ("dot", "cosine", "euclidean")
ROWS = 2400  # enough that some rows are held out of training


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(5).normal(size=(ROWS, 8)).astype(np.float32)


@pytest.fixture
def index(vectors):
    return pcpq.build(vectors[:100], np.arange(100), metric="dot", attributes={"year": np.arange(100)})


def in_batches(vectors, rows=700):
    return (vectors[start : start + rows] for start in range(0, len(vectors), rows))


def refuse_work(monkeypatch):
    def work(*arguments, **options):
        raise AssertionError("training or encoding began")

    monkeypatch.setattr(State, "fit", work)
    monkeypatch.setattr("pcpq.store.state.encode", work)


WRONG = [
    ({"ids": [1, 2]}, r"ids have shape \(2,\); expected \(100,\)|attributes have 100 rows for 2 ids"),
    ({"ids": [7] * 100}, "id 7 is given twice"),
    ({"ids": ["a"] * 100}, "id 'a' is given twice|ids are str"),
    ({"ids": np.arange(100) - 5}, "id -5 is negative"),
    ({"ids": [200, *"abc" * 33]}, r"ids\[1\] is 'a', a str; expected integers, or strings alone"),
    ({"ids": ["a", *range(99)]}, "id 0 is not a str, as the other ids are|ids are str"),
    ({"ids": np.arange(100.0)}, r"dtype float64; expected integers or strings; use ids.astype\(np.int64\)"),
    (
        {"ids": np.arange(100, dtype=np.uint64) + 2**63},
        r"id 9223372036854775907 is above 2\^63 - 1.*str\(id\)",
    ),
    ({"ids": [2**70, *range(99)]}, r"id 1180591620717411303424 is above 2\^63 - 1"),
    ({"ids": [uuid.UUID(int=number) for number in range(100)]}, r"ids\[0\] is UUID\('0+.*use str\(id\)"),
    ({"ids": np.ma.masked_equal(np.arange(300, 400), 303)}, r"ids\[3\] is masked"),
    ({"ids": np.arange(300, 400), "attributes": {"a": [1, 2]}}, "attributes have 2 rows for 100 (vectors|ids)"),
    ({"ids": np.arange(300, 400), "attributes": {"a": [1, "b"] * 50}}, "attributes cannot be converted"),
]


@pytest.mark.parametrize(("given", "said"), WRONG)
@pytest.mark.parametrize("batched", [False, True])
def test_wrong_ids_and_attributes_are_refused_before_training(
    given, said, batched, vectors, index, monkeypatch
):
    refuse_work(monkeypatch)
    given = {"attributes": {"year": np.arange(100)}} | given

    def source():
        return in_batches(vectors[:100], 30) if batched else vectors[:100]

    for call in (lambda: pcpq.build(source(), metric="dot", **given), lambda: index.add(source(), **given)):
        with pytest.raises(ValueError, match=said):
            call()
    with pytest.raises(ValueError, match=said):
        index.upsert(source(), **given)


def test_ids_and_columns_that_do_not_fit_the_index_are_refused_before_encoding(vectors, index, monkeypatch):
    refuse_work(monkeypatch)
    for given, said in (
        ({"ids": [99, 100]}, "id 99 is in the index already; upsert replaces it"),
        ({"ids": ["a", "b"]}, "ids are str, but those of the index are int"),
        ({"ids": [100, 101], "attributes": {"year": ["x", "y"]}}, "attributes differ from those of the index"),
    ):
        with pytest.raises(ValueError, match=said):
            index.add(vectors[:2], **given)


@pytest.mark.parametrize("given", [{"ids": np.arange(90)}, {"attributes": {"year": np.arange(90)}}])
def test_too_few_ids_or_attributes_for_an_iterator_are_refused(given, vectors):
    with pytest.raises(ValueError, match=r"90 (ids|rows) for 100 vectors; expected one per vector"):
        pcpq.build(in_batches(vectors[:100], 30), metric="dot", **given)


def test_attributes_without_pyarrow_are_refused_before_training(vectors, monkeypatch):
    refuse_work(monkeypatch)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'pcpq\[attributes\]'"):
        pcpq.build(vectors, metric="dot", attributes={"a": np.arange(ROWS)})


def sources(vectors, path):
    np.save(path, vectors)
    return vectors, np.load(path, mmap_mode="r"), in_batches(vectors), vectors.astype(np.float64)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("metric", METRICS)
def test_the_row_of_a_value_that_is_not_finite_is_named(metric, value, vectors, tmp_path):
    for row in (0, 1, *range(100, ROWS, 127), ROWS - 1):
        wrong = vectors.copy()
        wrong[row, 3] = value
        for source in sources(wrong, tmp_path / "wrong.npy"):
            with pytest.raises(
                ValueError, match=rf"vectors\[{row}, 3\] is {value}; every value must be finite"
            ):
                pcpq.build(source, metric=metric)


def test_held_out_rows_are_named_by_their_numbers(vectors, tmp_path):
    state = pcpq.build(vectors, metric="cosine", keep="float32")
    for row in range(0, ROWS, 61):
        wrong = vectors.copy()
        wrong[row] = 0
        for source in sources(wrong, tmp_path / "wrong.npy"):
            with pytest.raises(ValueError, match=rf"vectors\[{row}\] is zero; it has no direction"):
                pcpq.build(source, metric="cosine")
        with pytest.raises(ValueError, match=rf"vectors\[{row}\] is zero; it has no direction"):
            state.add(in_batches(wrong))


@pytest.mark.parametrize("metric", METRICS)
def test_add_names_the_row_that_is_not_finite(metric, vectors):
    index = pcpq.build(vectors[:100], metric=metric)
    wrong = vectors[:300].copy()
    wrong[250, 2] = np.nan
    for source in (wrong, in_batches(wrong, 90), in_batches(wrong.astype(np.float16), 90)):
        with pytest.raises(ValueError, match=r"vectors\[250, 2\] is nan"):
            index.add(source)
    assert len(index) == 100


def test_masked_vectors_are_refused_unless_no_value_is_masked(vectors):
    plain = np.ma.masked_array(vectors[:100])
    assert len(pcpq.build(plain, metric="dot")) == 100
    masked = plain.copy()
    masked[12, 3] = np.ma.masked
    said = r"\[12, 3\] is masked; every value is needed: use (vectors|queries)\.filled\(value\)"
    index = pcpq.build(plain, metric="dot")
    calls = (lambda: pcpq.build(masked, metric="dot"), lambda: index.add(masked), lambda: index.search(masked))
    for call in calls:
        with pytest.raises(ValueError, match=said):
            call()


def test_another_width_is_refused_with_both_widths(vectors, index):
    for source in (vectors[:5, :3], in_batches(vectors[:5, :3], 2), [vectors[:5], vectors[:5, :3]]):
        with pytest.raises(ValueError, match="vectors have 3 dimensions, the index has 8"):
            index.add(source)
    with pytest.raises(ValueError, match="vectors have 3 dimensions, those before have 8"):
        pcpq.build([vectors[:5], vectors[:5, :3]], metric="dot")


@pytest.mark.parametrize("ids", [None, "str"])
def test_adding_nothing_changes_nothing(ids, vectors):
    names = None if ids is None else [f"n{number}" for number in range(100)]
    index = pcpq.build(vectors[:100], names, metric="dot", attributes={"year": np.arange(100)})
    for empty in (vectors[:0], [], iter([]), iter([vectors[:0]]), np.empty((0, 0))):
        assert index.add(empty).shape == (0,)
    assert index.upsert(vectors[:0], [], attributes={"year": []}).dtype == (np.int64 if ids is None else object)
    assert len(index) == 100
    with pytest.raises(ValueError, match="ids"):
        index.add(vectors[:0], [200 if ids is None else "new"])


def test_empty_batches_of_an_iterator_are_skipped(vectors):
    batches = [vectors[:0], vectors[:50], vectors[:0], vectors[50:100], vectors[:0]]
    index = pcpq.build(iter(batches), metric="dot")
    assert len(index) == 100
    assert len(index.add(iter(batches))) == 100


@pytest.mark.parametrize("threads", [-1, 0, True, 1.5, "2"])
def test_threads_must_be_a_positive_whole_number(threads, vectors, index):
    def unread():
        raise AssertionError("vectors were read")
        yield

    for call in (
        lambda: pcpq.build(unread(), metric="dot", threads=threads),
        lambda: index.add(vectors[:2], threads=threads),
        lambda: index.upsert(vectors[:2], [1, 2], threads=threads),
        lambda: index.search(vectors[:2], threads=threads),
        lambda: index.search(vectors[0], threads=threads),
        lambda: index.search_range(vectors[:2], min_score=0.5, threads=threads),
        lambda: index.refit(threads=threads),
    ):
        with pytest.raises(ValueError, match=r"threads is .*expected a whole number of at least 1, or None"):
            call()
    assert len(index) == 100


@pytest.mark.parametrize("target", [0, -1, 1.5, np.nan, "0.9", True])
def test_target_recall_must_be_above_zero_and_at_most_one(target, vectors, index):
    with pytest.raises(ValueError, match=r"target_recall is .*expected a number above 0 and at most 1"):
        index.search(vectors[:2], target_recall=target)


def test_a_condition_must_be_a_text(vectors, index):
    for where in (3, 1.5, True, b"year > 1", ["year > 1"]):
        for call in (
            lambda where=where: index.search(vectors[:2], where=where),
            lambda where=where: index.search(vectors[:2], target_recall=0.9, where=where),
            lambda where=where: index.search_range(vectors[:2], min_score=0.5, where=where),
        ):
            with pytest.raises(ValueError, match=r"where is .*expected an SQL condition"):
                call()
