"""Lists: how they are trained."""

import numpy as np

from pcpq.datasets import load_words
from pcpq.ivf import partition


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


def test_every_other_row_is_half_of_them():
    rows = np.arange(14, dtype=np.float32).reshape(7, 2)
    half = partition.EveryOther(rows)
    assert len(half) == 4
    np.testing.assert_array_equal(half[slice(1, 4)], rows[2::2])
    np.testing.assert_array_equal(half[np.array([3, 0])], rows[[6, 0]])


def test_there_are_as_many_lists_as_vectors_at_most():
    vectors = np.random.default_rng(3).normal(size=(5, 12)).astype(np.float32)
    lists = partition.fit_partition(vectors, 60, "dot", np.random.default_rng(0), 1)
    assert len(lists) == 5
    assert sorted(lists.assign(vectors)) == [0, 1, 2, 3, 4]
