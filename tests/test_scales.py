import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from pcpq.quantizers.scales import MAX_BINS, best_levels, bin_values, nearest_level

pytestmark = [pytest.mark.kernels, pytest.mark.portable]

numbers = st.floats(-100, 100, width=32)
pairs = st.lists(st.tuples(numbers, st.floats(0, 10, width=32)), min_size=1, max_size=9)


@given(pairs, st.integers(1, 5))
def test_levels_are_as_good_as_brute_force(weighted, n_levels):
    values, weights = np.array(weighted, np.float64).T
    levels = best_levels(values, weights, n_levels)
    assert levels.shape == (n_levels,)
    assert (np.diff(levels) >= 0).all()
    best = reference.best_scalar_loss(values, weights, n_levels)
    scale = (weights * values**2).sum() + 1e-12
    assert reference.scalar_loss(values, weights, levels) <= best + 1e-6 * scale


@given(st.integers(0, 2**31), st.integers(1, 40))
def test_more_levels_never_raise_the_loss_on_the_same_bins(seed, n_levels):
    generator = np.random.default_rng(seed)
    values = generator.standard_t(2, size=300)
    bins, weights = bin_values(values, generator.random(300))
    fewer = reference.scalar_loss(bins, weights, best_levels(bins, weights, n_levels))
    more = reference.scalar_loss(bins, weights, best_levels(bins, weights, n_levels + 1))
    assert more <= fewer * (1 + 1e-6) + 1e-9


def test_bins_keep_weight_and_mean(generator):
    values, weights = generator.standard_t(2, size=50_000), generator.random(50_000)
    bins, bin_weights = bin_values(values, weights)
    assert len(bins) <= MAX_BINS
    assert (np.diff(bins) >= 0).all()
    assert bin_weights.sum() == pytest.approx(weights.sum())
    assert bins @ bin_weights == pytest.approx(values @ weights)


def test_an_outlier_keeps_a_bin_of_its_own(generator):
    values = np.concatenate([generator.normal(size=50_000), [1e6]])
    assert bin_values(values, np.ones(50_001))[0][-1] == 1e6


def test_binning_costs_little(generator):
    values = generator.normal(size=20_000)
    levels = best_levels(values, np.ones(20_000), 16)
    # Lloyd from there finds nothing better worth having.
    for _ in range(50):
        chosen = nearest_level(values, levels)
        levels_after = np.array([values[chosen == level].mean() for level in range(16)], np.float32)
        before = reference.scalar_loss(values, np.ones(20_000), levels)
        after = reference.scalar_loss(values, np.ones(20_000), levels_after)
        levels = levels_after
        assert before - after < 1e-3 * before


def test_fewer_distinct_values_than_levels_repeat_the_last():
    levels = best_levels(np.array([3.0, 1.0, 3.0, 1.0]), np.ones(4), 4)
    assert np.array_equal(levels, [1, 3, 3, 3])


def test_values_without_weight_give_finite_levels():
    assert np.isfinite(best_levels(np.array([1.0, 2.0, 3.0]), np.zeros(3), 2)).all()
