"""Lists: how they are trained, and which of them a query probes."""

import numpy as np
import pytest

import pcpq
from pcpq import partition
from pcpq.datasets import load_words


def unequal_crowds(seed=3, n=6000, dimensions=12):
    """Vectors around a few places, most of them around the first."""
    generator = np.random.default_rng(seed)
    places = generator.normal(size=(8, dimensions))
    share = 0.5 ** np.arange(8)
    chosen = generator.choice(8, size=n, p=share / share.sum())
    return (places[chosen] + 0.4 * generator.normal(size=(n, dimensions))).astype(np.float32)


def fullness(vectors, lists):
    """How full the list of a row is on average, over the average list."""
    sizes = np.bincount(lists.assign(vectors), minlength=len(lists))
    return len(lists) * np.square(sizes / len(vectors)).sum()


def with_and_without_crowding(vectors, n_lists, monkeypatch):
    """Two partitions, the second as it always is."""
    for crowding in (0.0, partition.CROWDING):
        monkeypatch.setattr(partition, "CROWDING", crowding)
        yield partition.fit_partition(vectors, n_lists, "dot", np.random.default_rng(0), 1)


def test_crowded_places_get_more_lists(monkeypatch):
    vectors = load_words()[0][:8000]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    plain, lists = with_and_without_crowding(vectors, 100, monkeypatch)
    assert fullness(vectors, lists) < 0.97 * fullness(vectors, plain)


def test_short_vectors_do_not_gather_in_one_list(monkeypatch):
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(6000, 12)) * generator.lognormal(sigma=1.5, size=(6000, 1))
    vectors = vectors.astype(np.float32)
    plain, lists = with_and_without_crowding(vectors, 60, monkeypatch)
    assert fullness(vectors, lists) < 1.2 * fullness(vectors, plain)


@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_a_search_probes_the_lists_whose_best_row_may_score_highest(metric):
    vectors = unequal_crowds()
    queries = unequal_crowds(seed=4, n=50)
    probes, k = 4, 10
    index = pcpq.build(vectors, metric=metric, n_lists=60, keep="float32")
    lists = index._trained.partition
    unit = index._trained.unit
    asked = queries / np.float32(index._trained.query_unit)
    ranks = asked @ lists.centers.T + lists.offsets
    ranks += np.linalg.norm(asked, axis=1, keepdims=True) * lists.spreads
    probed = np.argsort(-ranks, axis=1)[:, :probes]
    homes = lists.assign((vectors / unit).astype(np.float32))
    found = index.search(queries, k, probes=probes, rerank=len(vectors)).ids
    for query, own, ids in zip(queries, probed, found, strict=True):
        rows = np.flatnonzero(np.isin(homes, own))
        scores = vectors[rows] @ query
        if metric == "euclidean":
            scores -= 0.5 * np.square(vectors[rows]).sum(axis=1)
        assert set(ids) == set(rows[np.argsort(-scores)[:k]])


def test_every_other_row_is_half_of_them():
    rows = np.arange(14, dtype=np.float32).reshape(7, 2)
    half = partition.EveryOther(rows)
    assert len(half) == 4
    np.testing.assert_array_equal(half[slice(1, 4)], rows[2::2])
    np.testing.assert_array_equal(half[np.array([3, 0])], rows[[6, 0]])


def test_there_are_as_many_lists_as_vectors_at_most():
    vectors = unequal_crowds(n=5)
    lists = partition.fit_partition(vectors, 60, "dot", np.random.default_rng(0), 1)
    assert len(lists) == 5
    assert sorted(lists.assign(vectors)) == [0, 1, 2, 3, 4]
