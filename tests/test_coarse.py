"""Lists by small integers: which of them a query probes, and that no sum leaves its bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import exact, recall
from small_indexes import without_weights

import pcpq
from pcpq.ivf import rounding
from pcpq.ivf.coarse_ranking import Coarse
from pcpq.ivf.partition import Partition


def unequal_crowds(seed=3, n=6000, dimensions=12):
    """Return vectors in a few clusters, most of them in the first."""
    generator = np.random.default_rng(seed)
    places = generator.normal(size=(8, dimensions))
    share = 0.5 ** np.arange(8)
    chosen = generator.choice(8, size=n, p=share / share.sum())
    return (places[chosen] + 0.4 * generator.normal(size=(n, dimensions))).astype(np.float32)


def coarse_of(centroids):
    """Return the lists of these centroids, without training."""
    zeros = np.zeros(len(centroids), np.float32)
    return Coarse.of(Partition(centroids.astype(np.float32), zeros, zeros))


def integers_of(found, queries):
    """Queries and centroids in whole numbers, and the unit of each query."""
    lengths, largest = np.linalg.norm(queries, axis=1), np.abs(queries).max(axis=1)
    units = np.maximum(lengths / np.float32(found.longest_query), largest / np.float32(127))
    asked = np.rint(queries / units[:, None]).astype(np.int64)
    n, d = found.centroids.shape
    lists = found.integers.transpose(0, 2, 1, 3).reshape(-1, found.integers.shape[1] * 4)[:n, :d]
    return asked, lists.astype(np.int64), units


@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_a_search_probes_the_lists_whose_best_row_may_score_highest(metric, simd_level):
    vectors = unequal_crowds()
    queries = unequal_crowds(seed=4, n=50)
    probes, k = 4, 10
    index = without_weights(pcpq.build(vectors, metric=metric, n_lists=60, keep="float32"))
    trained = index._state.snapshot.trained
    found = Coarse.of(trained.partition)
    working = queries / np.float32(trained.query_unit)
    asked, lists, units = integers_of(found, working - found.mean if metric == "euclidean" else working)
    ranks = (asked @ lists.T) * units[:, None] * found.unit + trained.partition.offsets
    ranks += np.linalg.norm(working, axis=1, keepdims=True) * trained.partition.spreads
    probed = np.argsort(-ranks, axis=1)[:, :probes]
    homes = trained.partition.assign((vectors / trained.unit).astype(np.float32))
    answers = index.search(queries, k, probes=probes, rerank=len(vectors)).ids
    for query, own, ids in zip(queries, probed, answers, strict=True):
        rows = np.flatnonzero(np.isin(homes, own))
        scores = vectors[rows] @ query
        if metric == "euclidean":
            scores -= 0.5 * np.square(vectors[rows]).sum(axis=1)
        assert set(ids) == set(rows[np.argsort(-scores)[:k]])


@settings(deadline=None)
@given(
    d=st.sampled_from([1, 2, 3, 7, 64, 100, 1000, 70_000]),
    n=st.integers(1, 9),
    spread=st.sampled_from([0.0, 1.0, 4.0]),
    seed=st.integers(0, 99),
)
def test_no_sum_leaves_its_bits(d, n, spread, seed):
    generator = np.random.default_rng(seed)
    centroids = generator.normal(size=(n, d)) * generator.lognormal(sigma=spread, size=(n, d))
    found = coarse_of(centroids)
    # A query along a centroid makes the largest sums that there are.
    largest = found.centroids[np.abs(found.centroids).max(axis=1) > 0]
    queries = np.concatenate([largest, -largest, generator.normal(size=(2, d))]).astype(np.float32)
    asked, lists, _ = integers_of(found, queries)
    assert np.abs(lists).max() <= rounding.LARGEST_CENTROID_VALUE
    assert np.abs(asked).max() <= 127
    sums = asked @ lists.T
    assert np.abs(sums).max() <= rounding.LARGEST_SUM
    # What queries are too large by, sums start from, whatever wraps.
    starts = found.starts.astype(np.int64).sum(axis=2).reshape(-1)[:n]
    shifted = (asked + rounding.QUERY_ZERO) @ lists.T + starts
    np.testing.assert_array_equal(shifted.astype(np.int16), sums)


def test_integers_are_near_the_products_that_they_stand_for():
    generator = np.random.default_rng(0)
    centroids, queries = generator.normal(size=(500, 100)), generator.normal(size=(50, 100)).astype(np.float32)
    found = coarse_of(centroids)
    asked, lists, units = integers_of(found, queries)
    off = (asked @ lists.T) * units[:, None] * found.unit - queries @ found.centroids.T
    assert off.std() < 0.05 * (queries @ found.centroids.T).std()


@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_lists_are_found_far_from_the_origin(metric):
    generator = np.random.default_rng(5)
    vectors = unequal_crowds() + 100.0
    queries = unequal_crowds(seed=6, n=60) + (100.0 if metric == "euclidean" else 0.0)
    if metric == "dot":
        queries -= queries.mean(axis=1, keepdims=True)  # else all scores are nearly the same
    queries = queries[generator.permutation(60)].astype(np.float32)
    index = pcpq.build(vectors, metric=metric, n_lists=60, keep="float32")
    answers = index.search(queries, 10, probes=12, rerank=200).ids
    assert recall(answers, exact(vectors, queries, metric, 10)[1]) > 0.9
