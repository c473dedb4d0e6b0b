import numpy as np
import pytest
import reference

from pcpq.quantizers.loss import (
    LEAST_WEIGHT,
    anisotropic_weights,
    log_full_integral,
    parallel_weights,
    point_ratios,
    ratio_table,
)

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("dimensions", [2, 3, 4, 5, 8, 16, 64])
def test_weights_agree_with_numerical_integration(dimensions):
    x = np.array([1e-4, 0.01, 0.1, 0.2, 0.5, 0.8, 0.95])
    log_parallel, ratio = anisotropic_weights(x, dimensions)
    for i, relative in enumerate(x):
        parallel, orthogonal = reference.weights_by_integration(relative, 1.0, dimensions)
        assert ratio[i] == pytest.approx(orthogonal / parallel, rel=1e-10)
        assert log_parallel[i] + log_full_integral(dimensions) == pytest.approx(np.log(parallel), abs=1e-9)


@pytest.mark.parametrize("dimensions", [2, 4, 64, 384, 4096])
def test_the_parallel_weight_is_never_the_smaller_and_all_is_finite(dimensions):
    x = np.linspace(0, 1, 1001)[:-1]
    log_parallel, ratio = anisotropic_weights(x, dimensions)
    assert np.isfinite(log_parallel).all()
    assert ((ratio > 0) & (ratio <= 1)).all()
    assert (np.diff(ratio) <= 1e-15).all()  # the nearer the threshold, the less the orthogonal part counts


def test_the_limits_are_the_papers():
    log_parallel, ratio = anisotropic_weights(np.array([0.0, 1.0 - 1e-12, 1.0, 2.0]), 4)
    assert (ratio[0], log_parallel[0]) == (1.0, 0.0)  # far over the threshold: k-means
    assert ratio[1] < 1e-11  # just over it: only the parallel part
    assert (ratio[2], ratio[3]) == (1.0, 1.0)  # under it: no weight, encoded isotropically
    assert np.isneginf(log_parallel[2:]).all()


@pytest.mark.parametrize("dimensions", [2, 3, 4, 16, 64])
def test_the_table_is_as_good_as_the_function(dimensions, generator):
    points = generator.normal(size=(500, 1, dimensions)).astype(np.float32)
    norms = np.linalg.norm(points.astype(np.float64), axis=2)
    threshold = np.float32(0.7 * norms.mean())
    ratios = point_ratios(points, np.array([threshold]), dimensions)
    _, exact = anisotropic_weights(np.minimum(threshold / norms, 1.0).ravel(), dimensions)
    assert np.abs(ratios.ravel() - exact).max() < 2e-6


def test_one_coordinate_has_no_orthogonal_part():
    assert np.array_equal(
        point_ratios(np.ones((3, 2, 1), np.float32), np.ones(2, np.float32), 1), np.ones((3, 2))
    )


def test_points_at_or_under_the_threshold_have_next_to_no_training_weight():
    weights = parallel_weights(np.array([0.0, 0.5, 1.0, 1.5, 3.0]), 1.0, 4)
    assert np.array_equal(weights[:3], np.full(3, LEAST_WEIGHT, np.float32))
    assert weights[4] == 1.0
    assert LEAST_WEIGHT < weights[3] < 1


def test_with_no_point_over_the_threshold_all_weigh_the_same():
    assert len(np.unique(parallel_weights(np.array([0.1, 0.2]), 1.0, 4))) == 1


def test_the_table_ends_at_its_limits():
    table = ratio_table(3)
    assert (table[0], table[-1]) == (1.0, 0.0)
