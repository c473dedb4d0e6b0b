"""An index that is fitted quickly, and a comparison of its content with a dict."""

import copy

import numpy as np
from reference import exact

import pcpq
import pcpq.segment.segment
import pcpq.store.state

N_LISTS = 3
DIMENSIONS = 8


def random_vectors(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, DIMENSIONS)).astype(np.float32)


VECTORS, QUERIES = random_vectors(1200), random_vectors(4, seed=1)
MANY = random_vectors(3000, seed=3)  # enough that a search for a recall measures it first
FITTED = {}


def fitted(metric="euclidean", keep="float32"):
    """Return an index without vectors; it is fitted once per metric and precision."""
    if (metric, keep) not in FITTED:
        FITTED[metric, keep] = pcpq.Index(metric=metric, keep=keep, n_lists=N_LISTS).fit(VECTORS)
    return copy.copy(FITTED[metric, keep])


def holds(index, expected, queries=QUERIES, metric="euclidean"):
    """Assert that an index has the ids and vectors of a dict, and finds them."""
    assert len(index) == len(expected)
    found = index.search(queries, k=len(expected) + 2, probes=N_LISTS, rerank=10_000)
    missing = None if found.ids.dtype == object else -1
    assert found.ids[:, len(expected) :].tolist() == [[missing] * 2] * len(queries)
    if not expected:
        return
    keys, vectors = list(expected), np.stack(list(expected.values()))
    scores, rows = exact(vectors, queries, metric, len(expected))
    assert found.ids[:, : len(expected)].tolist() == [[keys[row] for row in some] for some in rows]
    assert np.allclose(found.scores[:, : len(expected)], scores, rtol=1e-5, atol=1e-5)
    assert np.array_equal(index.reconstruct(keys), vectors)


def number(place):
    return 3 * place


def word(place):
    return "" if place == 0 else "é漢"[place % 2] * (place % 3) + str(place)
