"""Vectors of int8 and uint8: taken as numbers, wherever vectors are, and never converted as a whole."""

import numpy as np
import pytest
from array_forms import library

import pcpq
from pcpq.formats import read_vectors
from pcpq.io.foreign_arrays import LazyRows
from pcpq.io.streams import Stream

N, D = 2600, 12
DTYPES = ["int8", "uint8"]


def rows_of(dtype, n=N, seed=0):
    """Return rows around some centres, over the whole range of a dtype."""
    generator, limits = np.random.default_rng(seed), np.iinfo(dtype)
    centres = np.random.default_rng(9).integers(limits.min, limits.max + 1, size=(40, D))
    rows = centres[generator.integers(40, size=n)] + generator.normal(scale=20, size=(n, D)).round()
    return np.clip(rows, limits.min, limits.max).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", ["dot", "cosine", "euclidean"])
def test_bytes_are_searched_as_the_same_numbers_in_float32_are(dtype, metric):
    rows, queries = rows_of(dtype), rows_of(dtype, 30, seed=1)
    index = pcpq.build(rows, metric=metric, keep="float32", queries=queries)
    same = pcpq.build(
        rows.astype(np.float32), metric=metric, keep="float32", queries=queries.astype(np.float32)
    )
    found, expected = index.search(queries, 5), same.search(queries.astype(np.float32), 5)
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.scores, expected.scores)
    assert np.array_equal(index.search(queries[0], 5).ids, expected.ids[0])
    if metric != "cosine":
        assert np.array_equal(index.reconstruct([0, 7]), rows[[0, 7]])
    index.add(queries, np.arange(N, N + 30))
    index.upsert(rows[1:2], [0])
    assert index.search(queries[3], 1, probes=index.stats()["lists"], filter=[N + 3, 5]).ids.shape == (1,)
    limits, _, _ = index.search_range(
        queries[:2], **({"max_distance": 1e3} if metric == "euclidean" else {"min_score": 0.5})
    )
    assert len(limits) == 3
    index.tune(queries)


@pytest.mark.parametrize("dtype", DTYPES)
def test_streams_of_bytes_are_converted_batch_by_batch(dtype):
    rows = rows_of(dtype, 500)
    expected = pcpq.build((part.astype(np.float32) for part in np.split(rows, 5)), metric="dot")
    index = pcpq.build(iter(np.split(rows, 5)), metric="dot")
    assert np.array_equal(index.search(rows[:9]).ids, expected.search(rows[:9]).ids)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_of_bytes_is_not_converted_as_a_whole(dtype):
    rows = np.zeros((3_000_000, 8), dtype)
    stream = Stream(rows)
    assert isinstance(stream.array, LazyRows)
    lengths = []
    for batch in stream.batches(8, 4):
        assert batch.dtype == np.float32
        lengths.append(len(batch))
    assert sum(lengths) == len(rows)
    assert max(lengths) <= len(rows) // 2
    assert stream.sample(100, np.random.default_rng(0)).read(slice(None)).dtype == np.float32


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_files_of_bytes_are_read(dtype, suffix, tmp_path):
    rows, path = rows_of(dtype, 300), tmp_path / f"rows.{suffix}"
    np.save(path, rows) if suffix == "npy" else np.savez(path, vectors=rows)
    index = pcpq.build(read_vectors(path).vectors, metric="dot", keep="float32")
    assert np.array_equal(index.reconstruct(np.arange(300)), rows)
    mapped = np.load(path, mmap_mode="r") if suffix == "npy" else rows
    assert np.array_equal(pcpq.build(mapped, metric="dot").search(rows[:5]).ids, index.search(rows[:5]).ids)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_quantizer_takes_bytes(dtype):
    rows = rows_of(dtype, 400)
    quantizer = pcpq.PQ(section_size=2).fit(rows)
    same = pcpq.PQ(section_size=2).fit(rows.astype(np.float32))
    assert np.array_equal(quantizer.encode(rows).codes, same.encode(rows.astype(np.float32)).codes)


def arrow_column(rows):
    pa = library("pyarrow")
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), D)


FORMS = {
    "Arrow column": arrow_column,
    "Arrow table": lambda rows: library("pyarrow").table({"vector": arrow_column(rows)}),
    "pandas frame": lambda rows: library("pandas").DataFrame(rows),
    "pandas column": lambda rows: library("pandas").Series(list(rows)),
    "polars frame": lambda rows: library("polars").DataFrame(rows),
    "tensor": lambda rows: library("torch").from_numpy(rows),
    "objects": lambda rows: np.array([*rows, None], object)[:-1],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_bytes_of_other_libraries_are_taken(form, dtype):
    rows = rows_of(dtype, 300)
    expected = pcpq.build(rows, metric="dot").search(rows[:5]).ids
    index = pcpq.build(FORMS[form](rows), metric="dot")
    assert np.array_equal(index.search(FORMS[form](rows[:5])).ids, expected)


def test_other_integers_are_refused():
    for dtype in (np.int16, np.int64, bool):
        with pytest.raises(ValueError, match="expected float16, float32, float64, int8 or uint8"):
            pcpq.build(np.ones((20, 3), dtype), metric="dot")
