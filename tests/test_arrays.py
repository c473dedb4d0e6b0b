import numpy as np
import pytest

import pcpq
from pcpq.io.arrays import as_vectors, empty_lines, typical_unit, working_rows
from pcpq.util.batches import ALL_BATCHES_ELEMENTS, BATCH_ELEMENTS, batches

pytestmark = pytest.mark.portable


def test_a_memory_map_is_not_copied(tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((5, 3), np.float32))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert np.shares_memory(as_vectors(mapped), mapped)


@pytest.mark.parametrize(
    ("vectors", "text"),
    [
        (np.ones((2, 3), np.int32), "vectors have dtype int32; expected float16, float32, float64, int8 or"),
        (np.ones((2, 3), complex), "complex128"),
        (np.array([["a"]]), "dtype <U1"),
        (np.ones(3), r"vectors have 1 axes, shape \(3,\); expected 2"),
        (np.ones((0, 3)), r"vectors are empty: shape \(0, 3\)"),
        (np.ones((3, 0)), r"vectors are empty: shape \(3, 0\)"),
        (np.ones((2, 3)), "vectors have 3 dimensions, the quantizer has 4"),
    ],
)
def test_bad_vectors_are_refused_with_both_values(vectors, text):
    with pytest.raises(ValueError, match=text):
        as_vectors(vectors, dimensions=4)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_value_that_is_not_finite_is_named_with_its_row(value, dtype):
    rows = np.ones((4, 3), dtype)
    rows[2, 1] = value
    with pytest.raises(ValueError, match=rf"vectors\[12, 1\] is {value}; every value must be finite"):
        working_rows(rows, 1.0, "vectors", 10)
    with pytest.raises(ValueError, match=rf"vectors\[2, 1\] is {value}"):
        typical_unit(rows, "vectors")


def test_a_value_far_beyond_the_training_vectors_is_refused():
    with pytest.raises(
        ValueError, match=r"vectors\[0, 0\] is 1e\+30: more than 1e\+15 times the typical length 2"
    ):
        working_rows(np.full((1, 1), 1e30), 2.0, "vectors")


def test_a_value_beyond_float32_is_refused():
    with pytest.raises(ValueError, match=r"vectors hold 1e\+39; the largest value float32 can hold is 3.4"):
        typical_unit(np.full((1, 1), 1e39), "vectors")


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1.0, 3.0, 1e18, 1e37])
def test_the_unit_is_the_power_of_two_under_the_typical_length(size):
    unit = typical_unit(np.array([[size, 0.0], [0.0, -size]]), "vectors")
    assert unit <= size < 2 * unit
    assert np.log2(unit) == int(np.log2(unit))


def test_dividing_by_the_unit_rounds_nothing(generator):
    rows = generator.normal(size=(50, 4)).astype(np.float32) * np.float32(1e-12)
    unit = typical_unit(rows, "vectors")
    assert np.array_equal(working_rows(rows, unit, "vectors") * np.float32(unit), rows)


def test_zero_vectors_have_unit_one():
    assert typical_unit(np.zeros((3, 2)), "vectors") == 1.0


def test_batches_cover_every_row_once():
    for n in (1, 63, 64, 65, 5000):
        slices = list(batches(n, BATCH_ELEMENTS // 64, 1))
        assert np.array_equal(np.concatenate([np.arange(n)[part] for part in slices]), np.arange(n))


def test_the_batches_of_all_threads_together_stay_small():
    for threads in (1, 2, 8, 64, 256):
        rows = batches(10**7, 100, threads)[0].stop
        assert rows * 100 * threads <= ALL_BATCHES_ELEMENTS


def test_codes_and_kept_vectors_begin_where_a_cache_line_does():
    lines = empty_lines((3, 100), np.uint8)
    assert lines.shape == (3, 100)
    assert lines.ctypes.data % 64 == 0
    rows = np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32)
    segment = pcpq.build(rows, metric="dot")._state.snapshot.parts[0].segment
    assert segment.packed.blocks.ctypes.data % 64 == 0
    assert segment.kept.ctypes.data % 64 == 0


@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_a_vector_far_longer_than_the_others_is_named_by_its_row(metric):
    vectors = np.random.default_rng(0).normal(size=(3000, 16)).astype(np.float32)
    vectors[777] *= np.float32(1e30)
    with pytest.raises(ValueError, match=r"^vectors\[777, \d+\] is .*e\+.*: more than 1e\+15 times"):
        pcpq.build(vectors, metric=metric)
