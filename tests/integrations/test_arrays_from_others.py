"""Tensors, frames and columns of the real libraries, wherever vectors, queries, ids and attributes go in."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from array_forms import FORMS, SINGLE, Capsule, ElsewhereCapsule, fixed_lists, library

import pcpq
from pcpq.io import streams
from pcpq.io.arrays import as_vectors
from pcpq.io.foreign_arrays import LazyRows, as_held
from pcpq.io.streams import Stream

N, D = 400, 8


@pytest.fixture(scope="module")
def vectors():
    rows = np.random.default_rng(4).normal(size=(N, D)).astype(np.float32)
    # As bfloat16 has them, so that every form holds the same numbers.
    return (rows.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.fixture(scope="module")
def index(vectors):
    return pcpq.build(vectors, metric="dot", keep="float32")


@pytest.mark.parametrize("form", FORMS)
def test_vectors_and_queries_may_be_of_any_library(form, vectors, index):
    given = FORMS[form](vectors)
    expected = index.search(vectors[:20], 5)
    ours = pcpq.build(given, metric="dot", keep="float32")
    np.testing.assert_array_equal(ours.reconstruct(np.arange(N)), vectors)
    np.testing.assert_array_equal(ours.search(vectors[:20], 5).ids, expected.ids)
    asked = index.search(FORMS[form](vectors[:200]), 5)
    assert asked.ids.shape == (200, 5)
    np.testing.assert_array_equal(asked.ids[:20], expected.ids)
    np.testing.assert_allclose(asked.scores[:20], expected.scores, rtol=1e-6)
    np.testing.assert_array_equal(as_vectors(given), vectors)


@pytest.mark.parametrize(
    "form", ["torch that learns", "torch bfloat16", "pandas column of arrays", "polars lists"]
)
def test_vectors_of_any_library_are_added_tuned_by_and_quantized(form, vectors):
    index = pcpq.Index(metric="dot", keep="float32").fit(vectors)
    assert index.add(FORMS[form](vectors[:300])).tolist() == list(range(300))
    index.add(iter([FORMS[form](vectors[300:350]), FORMS[form](vectors[350:])]))
    index.upsert(FORMS[form](-vectors[:101]), np.arange(101))
    np.testing.assert_array_equal(index.reconstruct([0, 399]), [-vectors[0], vectors[399]])
    built = pcpq.build(FORMS[form](vectors), metric="dot", queries=FORMS[form](vectors[:100]))
    limits, _, _ = built.search_range(FORMS[form](vectors[:10]), min_score=1.0)
    assert limits.shape == (11,)
    quantizer = pcpq.PQ(section_size=2).fit(FORMS[form](vectors))
    codes = quantizer.encode(FORMS[form](vectors))
    expected = quantizer.scores(vectors[:10], quantizer.encode(vectors))
    np.testing.assert_array_equal(quantizer.scores(FORMS[form](vectors[:10]), codes), expected)


@pytest.mark.parametrize("form", SINGLE)
def test_a_single_query_has_a_single_answer(form, vectors, index):
    found = index.search(SINGLE[form](vectors[3]), 5)
    assert found.ids.shape == (5,)
    np.testing.assert_array_equal(found.ids, index.search(vectors[3], 5).ids)


@pytest.mark.parametrize("form", ["torch", "torch that learns", "DLPack", "polars array", "Arrow tensor"])
def test_arrays_are_used_without_a_copy(form, vectors):
    rows = vectors.copy()
    given = library("torch").from_numpy(rows) if form == "torch" else FORMS[form](rows)
    held = as_held(given)
    assert isinstance(held, np.ndarray)
    again = as_held(given)
    assert np.shares_memory(held, again)  # neither is a copy


def test_frames_of_one_block_and_fixed_lists_are_not_copied(vectors):
    rows = vectors.copy()
    assert np.shares_memory(as_held(fixed_lists(rows)), rows)
    frame = library("pandas").DataFrame(rows, copy=False)
    if "copy" not in inspect.signature(frame.__array__).parameters:
        pytest.skip("this pandas cannot be asked not to copy; its frames are converted some rows at a time")
    assert np.shares_memory(as_held(frame), rows)


@pytest.mark.parametrize(
    "form",
    [
        "torch bfloat16",
        "pandas frame of two precisions",
        "pandas column of arrays",
        "polars frame",
        "polars lists",
    ],
)
def test_what_is_no_array_is_converted_some_at_a_time(form):
    many = np.random.default_rng(1).normal(size=(40_000, 64)).astype(np.float32)
    given = FORMS[form](many)
    stream = Stream(given)
    assert isinstance(stream.array, LazyRows)
    assert stream.length == len(many)
    tracemalloc.start()
    count = sum(len(batch) for batch in stream.batches(64, threads=16))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == len(many)
    assert most < many.nbytes // 2


def test_a_sample_of_lists_is_drawn_from_all_of_them(vectors):
    stream = Stream(library("pandas").Series(list(vectors)))
    sample = stream.sample(50, np.random.default_rng(0))
    assert sample.numbers.max() > N // 2
    np.testing.assert_array_equal(sample.read(slice(None)), vectors[sample.numbers])


def test_lists_are_converted_for_training_once_and_once_to_be_added():
    many = np.random.default_rng(8).normal(size=(9000, D)).astype(np.float32)
    reads = []

    def read(rows):
        reads.append(len(many[rows]))
        return many[rows]

    ours = pcpq.build(LazyRows(len(many), read), metric="dot", n_lists=40)
    assert 2 * len(many) <= sum(reads) < 2 * len(many) + 100
    expected = pcpq.build(many, metric="dot", n_lists=40)
    np.testing.assert_array_equal(ours.search(many[:50]).ids, expected.search(many[:50]).ids)


def test_without_room_for_a_sample_lists_are_converted_again(vectors, monkeypatch):
    expected = pcpq.build(vectors, metric="dot", n_lists=10)
    monkeypatch.setattr(streams.Seen, "take", lambda self, batch: batch)
    ours = pcpq.build(FORMS["pandas column of arrays"](vectors), metric="dot", n_lists=10)
    np.testing.assert_array_equal(ours.search(vectors[:50]).ids, expected.search(vectors[:50]).ids)


def test_rows_of_several_precisions_lose_nothing():
    rows = [np.ones(4, np.float16), np.full(4, 1e6, np.float32), np.full(4, 0.1)] * 100
    ours = pcpq.build(np.fromiter(rows, object, len(rows)), metric="euclidean", keep="float32")
    np.testing.assert_allclose(ours.reconstruct([0, 1, 2]), np.array(rows[:3]), rtol=1e-6)


def bad_rows(place, row):
    rows = [[1.0, 2.0, 3.0] for _ in range(6)]
    rows[place] = row
    return library("pandas").Series(rows)


ERRORS = {
    "meta": (lambda: library("torch").empty(3, D, device="meta"), "vectors are on meta; pass vectors.cpu()"),
    "sparse": (lambda: library("torch").eye(D).to_sparse(), "cannot be read as an array: .*to_dense"),
    "negated": (lambda: library("torch").ones(3, D, dtype=library("torch").cfloat).conj().imag, "resolve_neg"),
    "integers": (lambda: library("torch").ones(3, D, dtype=int), "vectors have dtype int64; expected float16"),
    "device": (lambda: ElsewhereCapsule(np.ones((3, D))), "on DLPack device type 2; only CPU memory"),
    "bfloat16": (
        lambda: Capsule(library("torch").ones(3, D).bfloat16()),
        "cannot be read as an array: .*dtype",
    ),
    "integers too": (
        lambda: library("pandas").DataFrame({"id": [1, 2], "x": [0.5, 0.7]}),
        r"vectors have columns id \(int64\), x \(float64\); expected one of lists, or floats alone",
    ),
    "two of lists": (
        lambda: library("polars").DataFrame({"a": [[1.0]], "b": [[2.0]]}),
        r"columns a \(list\(float64\)\), b \(list\(float64\)\); expected one of lists.*: pass frame\['a'\]",
    ),
    "lazy": (lambda: library("polars").LazyFrame({"a": [1.0]}), "are a LazyFrame; .*: collect it first"),
    "ragged": (lambda: bad_rows(4, [1.0, 2.0]), r"vectors\[4\] is \[1.0, 2.0\]; expected 3 numbers"),
    "none": (lambda: bad_rows(5, None), r"vectors\[5\] is None; expected 3 numbers"),
    "text": (lambda: bad_rows(2, ["a", "b", "c"]), r"vectors\[2\] is \['a', 'b', 'c'\]; expected 3 numbers"),
    "a hole": (
        lambda: bad_rows(1, [1.0, None, 2.0]),
        r"vectors\[1\] is \[1.0, None, 2.0\]; expected 3 numbers",
    ),
    "none at first": (lambda: bad_rows(0, None), "vectors have dtype object"),
    "missing": (
        lambda: library("pandas").DataFrame({"x": [0.5, 0.7], "y": [0.5, None]}).astype("Float32"),
        "vectors lack values: .*NAType",
    ),
    "words": (lambda: library("pandas").Series(["a", "b"]), "vectors have dtype"),
    "nothing": (
        lambda: library("pandas").DataFrame({"x": []}, dtype=float),
        r"vectors are empty: shape \(0, 1\)",
    ),
    "no lists": (
        lambda: library("polars").Series([], dtype=library("polars").List(float)),
        "vectors are empty",
    ),
    "null": (
        lambda: library("polars").Series([[1.0, 2.0], None], dtype=library("polars").List(float)),
        r"vectors\[1\] is None; expected 2 numbers",
    ),
    "an object": (lambda: SimpleNamespace(), "vectors are a SimpleNamespace; expected an array"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_holds_no_vectors_is_refused_with_a_reason(case):
    make, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        pcpq.build(make(), metric="dot")


@pytest.mark.parametrize("case", ["meta", "device", "ragged", "lazy"])
def test_queries_are_refused_by_their_own_name(case, index):
    make, message = ERRORS[case]
    with pytest.raises(ValueError, match=message.replace("vectors", "queries")):
        index.search(make())


def test_queries_to_measure_by_must_have_the_dimensions_of_the_vectors(vectors):
    queries = library("pandas").Series(list(vectors[:50, :3]))
    with pytest.raises(ValueError, match="queries have 3 dimensions, the vectors have 8"):
        pcpq.build(vectors, metric="dot", queries=queries)


def test_rows_of_a_query_language_are_read_as_they_come(vectors):
    duckdb, arrow = library("duckdb"), library("pyarrow")
    with duckdb.connect() as connection:
        connection.register("words", arrow.table({"n": range(N), "e": fixed_lists(vectors)}))
        relation = connection.sql("SELECT e FROM words WHERE n >= 100 ORDER BY n")
        ours = pcpq.build(relation, metric="dot", keep="float32")
    np.testing.assert_array_equal(ours.reconstruct(np.arange(300)), vectors[100:])


NUMBERS = {
    "torch": lambda ids: library("torch").from_numpy(ids),
    "DLPack": Capsule,
    "pandas": lambda ids: library("pandas").Series(ids, index=ids[::-1]),
    "pandas that may lack values": lambda ids: library("pandas").Series(ids).astype("Int64"),
    "pandas index": lambda ids: library("pandas").Index(ids),
    "polars": lambda ids: library("polars").Series(ids),
    "Arrow": lambda ids: library("pyarrow").array(ids),
    "Arrow in two parts": lambda ids: library("pyarrow").chunked_array([ids[:3], ids[3:]]),
}


@pytest.mark.parametrize("form", NUMBERS)
def test_ids_may_be_of_any_library(form, vectors):
    ids = np.random.default_rng(2).permutation(N).astype(np.int64) + 1000
    made = NUMBERS[form]
    ours = pcpq.build(vectors, made(ids), metric="dot", keep="float32")
    np.testing.assert_array_equal(ours.reconstruct(made(ids[:7])), vectors[:7])
    found = ours.search(vectors[:5], 3, filter=made(ids[:50]), exclude=made(ids[:20]))
    assert np.isin(found.ids, ids[20:50]).all()
    ours.upsert(vectors[:4], made(ids[4:8]))
    np.testing.assert_array_equal(ours.reconstruct(ids[4:8]), vectors[:4])
    assert ours.remove(made(ids[:10])) == 10


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_words_may_be_of_any_library(name, vectors):
    words = [f"word {number}" for number in range(N)]
    ours = pcpq.build(vectors, library(name).Series(words), metric="dot", keep="float32")
    found = ours.search(vectors[5], 3, filter=library(name).Series(words[:50]))
    assert set(found.ids) <= set(words[:50])
    assert ours.remove(library(name).Series(words[:10])) == 10


def test_no_library_is_imported_to_recognise_its_arrays():
    program = (
        "import sys, numpy as np, pcpq\n"
        "rows = np.random.default_rng(0).normal(size=(300, 4))\n"
        "pcpq.build(rows, metric='dot').search(rows.tolist())\n"
        "pcpq.build(np.fromiter(rows, object, 300), metric='dot')\n"
        "print([name for name in ('torch', 'pandas', 'polars', 'pyarrow', 'duckdb') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
