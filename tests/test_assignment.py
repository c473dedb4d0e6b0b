"""The lists that rows belong to: found by small integers, decided by exact distances."""

import numpy as np
import pytest
from reference import list_distances

from pcpq import _core
from pcpq.ivf.kmeans import mean_centroids, near_round, nearest_centroids, nearest_lists, two_lists
from pcpq.ivf.rounding import RoundedLists

pytestmark = [pytest.mark.kernels, pytest.mark.portable]

N_LISTS = 301  # tiles and groups of lists that are not full


def normal(generator, n, d):
    return generator.normal(size=(n, d))


def far_from_the_origin(generator, n, d):
    return generator.normal(size=(n, d)) + 1000.0


def of_all_lengths(generator, n, d):
    return generator.normal(size=(n, d)) * 10.0 ** generator.uniform(-4, 4, size=(n, 1))


def far_and_of_all_lengths(generator, n, d):
    return of_all_lengths(generator, n, d) + 1000.0


def one_long(generator, n, d):
    """Most centroids are close together: rounding leaves many in doubt."""
    points = 1e-3 * generator.normal(size=(n, d))
    points[::50] *= 1e6
    return points


def half_of_them_twice(generator, n, d):
    points = generator.normal(size=(n, d))
    points[n // 2 :] = points[: n - n // 2]
    return points


SHAPES = (normal, far_from_the_origin, of_all_lengths, far_and_of_all_lengths, one_long, half_of_them_twice)


def rows_and_centroids(shape, d, n=203, n_lists=N_LISTS):
    points = shape(np.random.default_rng(d), n + n_lists, d).astype(np.float32)
    points = points[np.random.default_rng(1).permutation(len(points))]
    return points[:n], points[n:]


def check_lists(found, distances):
    """Each is the nearest, or as near as float32 can tell."""
    chosen = np.take_along_axis(distances, found[:, None].astype(np.int64), axis=1)[:, 0]
    least = distances.min(axis=1)
    assert (found == distances.argmin(axis=1)).mean() >= 0.99
    np.testing.assert_allclose(chosen, least, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 100, 385])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_find_their_nearest_list(shape, d, simd_level):
    rows, centroids = rows_and_centroids(shape, d)
    found, squares = nearest_centroids(rows, centroids, 2)
    distances = list_distances(rows, centroids)
    check_lists(found, distances)
    chosen = np.take_along_axis(distances, found[:, None].astype(np.int64), axis=1)[:, 0]
    np.testing.assert_allclose(squares, chosen, rtol=1e-5)


def test_of_equal_lists_the_first_is_chosen(simd_level):
    rows, centroids = rows_and_centroids(normal, 20)
    centroids = np.concatenate([centroids, centroids, centroids[:5]])
    found, _ = nearest_centroids(rows, centroids, 1)
    assert found.max() < N_LISTS
    everything, squares = nearest_centroids(rows, np.ones((40, 20), np.float32), 1)
    assert not everything.any()
    np.testing.assert_allclose(squares, np.square(rows - 1.0).sum(axis=1), rtol=1e-5)


def test_a_crowded_list_is_farther_away(simd_level, generator):
    rows, centroids = rows_and_centroids(normal, 20)
    crowding = generator.random(N_LISTS).astype(np.float32) * 10
    found, squares = nearest_centroids(rows, centroids, 1, crowding)
    distances = list_distances(rows, centroids) + crowding
    np.testing.assert_array_equal(found, distances.argmin(axis=1))
    np.testing.assert_allclose(squares, distances.min(axis=1), rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_second_lists_have_the_least_loss_of_all(shape, simd_level):
    rows, centroids = rows_and_centroids(shape, 24, n_lists=25)
    first, second = two_lists(rows, RoundedLists.of(centroids), 1.5, 1)
    distances = list_distances(rows, centroids)
    np.testing.assert_array_equal(first, nearest_centroids(rows, centroids, 1)[0])
    others = rows[:, None].astype(np.float64) - centroids[None]
    residuals = others[np.arange(len(rows)), first]
    along = residuals / np.maximum(np.linalg.norm(residuals, axis=1, keepdims=True), 1e-30)
    losses = distances + 1.5 * np.einsum("nld,nd->nl", others, along) ** 2
    losses[np.arange(len(rows)), first] = np.inf
    check_lists(second, losses)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_lists", [1, 2, 40, N_LISTS, 900])
def test_first_lists_are_the_nearest_however_many_there_are(shape, n_lists, simd_level):
    rows, centroids = rows_and_centroids(shape, 24, n_lists=n_lists)
    first, second = two_lists(rows, RoundedLists.of(centroids), 1.5, 1)
    nearest, _ = nearest_centroids(rows, centroids, 1)
    # Lists that are as near as float32 can tell may be compared for one list, and not for two.
    distances = np.sqrt(list_distances(rows, centroids))
    each = np.arange(len(rows))
    np.testing.assert_allclose(distances[each, first], distances[each, nearest], rtol=1e-6)
    assert shape is one_long or np.array_equal(first, nearest)
    assert n_lists == 1 or not np.any(first == second)


@pytest.mark.parametrize("shape", SHAPES)
def test_lists_around_a_row_are_the_nearest_ones(shape, simd_level):
    rows, centroids = rows_and_centroids(shape, 24)
    found = np.empty((len(rows), 64), np.int32)
    _core.lists_around(RoundedLists.of(centroids).native, rows=rows, out_lists=found)
    assert (np.diff(found) > 0).all()
    distances = np.sqrt(list_distances(rows, centroids))
    farthest = np.take_along_axis(distances, found.astype(np.int64), axis=1).max(axis=1)
    np.testing.assert_allclose(farthest, np.sort(distances, axis=1)[:, 63], rtol=1e-3)


def test_rows_are_compared_with_lists_near_to_their_group(simd_level, generator):
    rows, centroids = rows_and_centroids(normal, 24)
    near = np.stack([np.sort(generator.permutation(N_LISTS)[:70]) for _ in range(4)]).astype(np.int32)
    stops = np.array([50, 50, 140, len(rows)])
    found, squares = np.empty(len(rows), np.int32), np.empty(len(rows), np.float32)
    _core.nearest_lists(
        RoundedLists.of(centroids).native,
        rows=rows,
        near=near,
        stops=stops,
        out_lists=found,
        out_distances=squares,
    )
    distances = list_distances(rows, centroids)
    for group, own in enumerate(np.split(np.arange(len(rows)), stops[:-1])):
        best = near[group][distances[own][:, near[group]].argmin(axis=1)]
        np.testing.assert_array_equal(found[own], best)
    np.testing.assert_allclose(squares, distances[np.arange(len(rows)), found], rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_level_and_every_batch_gives_the_same_bits(shape):
    rows, centroids = rows_and_centroids(shape, 61)
    lists = RoundedLists.of(centroids)
    results = []
    for level in _core.simd_levels():
        _core.set_simd_level(level)
        for step in (len(rows), 7, 1):
            parts = [rows[i : i + step] for i in range(0, len(rows), step)]
            near = [
                np.concatenate(some) for some in zip(*(nearest_lists(p, lists, 1) for p in parts), strict=True)
            ]
            two = [
                np.concatenate(some) for some in zip(*(two_lists(p, lists, 1.5, 1) for p in parts), strict=True)
            ]
            results.append(near + two)
    _core.set_simd_level("auto")
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("threads", [1, 3])
def test_means_are_those_of_the_rows_of_each_list(threads):
    rows, centroids = rows_and_centroids(normal, 24, n=2000, n_lists=90)
    assigned, distances = nearest_centroids(rows, centroids, threads)
    assigned[assigned == 5] = 6  # an empty list
    means = mean_centroids(rows, assigned, distances, centroids, threads)
    for i in np.unique(assigned):
        np.testing.assert_allclose(means[i], rows[assigned == i].mean(axis=0), rtol=1e-4, atol=1e-5)
    assert (means[5] == rows).all(axis=1).any()


def test_a_late_round_gives_what_an_early_one_would(generator):
    rows, centroids = rows_and_centroids(normal, 2, n=4000, n_lists=300)
    before, _ = nearest_centroids(
        rows, centroids + 0.01 * generator.normal(size=(300, 2)).astype(np.float32), 1
    )
    found, squares, means = near_round(rows, centroids, before, 2, np.zeros(300, np.float32))
    assigned, distances = nearest_centroids(rows, centroids, 2)
    assert 0 < (before != assigned).mean() < 0.5
    np.testing.assert_array_equal(found, assigned)
    np.testing.assert_array_equal(squares, distances)
    expected = mean_centroids(rows, assigned, distances, centroids, 2)
    np.testing.assert_allclose(means, expected, rtol=1e-4, atol=1e-5)


def test_arrays_that_do_not_match_are_refused():
    rows, centroids = rows_and_centroids(normal, 8)
    lists = RoundedLists.of(centroids)
    out = {"out_lists": np.empty(len(rows), np.int32), "out_distances": np.empty(len(rows), np.float32)}
    near, stops = np.zeros((1, 4), np.int32), np.array([len(rows)])
    for changed, message in (
        ({"rows": rows[:, :7].copy()}, "different dimensions"),
        ({"out_lists": out["out_lists"][1:]}, "outputs"),
        ({"near": near}, "together"),
        ({"near": near, "stops": np.array([1, 2])}, "do not match"),
        ({"near": near + N_LISTS, "stops": stops}, "not there"),
        ({"near": near - 1, "stops": stops}, "not there"),
        ({"near": near, "stops": stops - 1}, "number of rows"),
        ({"near": near[[0, 0]], "stops": np.array([300, len(rows)])}, "ascend"),
    ):
        with pytest.raises(ValueError, match=message):
            _core.nearest_lists(lists.native, **({"rows": rows} | out | changed))
    broken = _core.RoundedLists(**(vars(lists) | {"units": lists.units[:-1]}))
    with pytest.raises(ValueError, match="multiple of 8"):
        _core.nearest_lists(broken, rows=rows, **out)
    around = np.empty((len(rows), N_LISTS + 1), np.int32)
    with pytest.raises(ValueError, match="so many"):
        _core.lists_around(lists.native, rows=rows, out_lists=around)
    with pytest.raises(ValueError, match="not there"):
        _core.add_to_lists(rows=rows, lists=out["out_lists"] * 0 + 3, out_sums=np.zeros((3, 8), np.float32))
