"""Fixtures: an index in a directory, and another to be saved over it."""

import copy

import pytest
from small_indexes import N_LISTS, VECTORS, small_index, some_vectors

import pcpq


@pytest.fixture(scope="session")
def fitted():
    return small_index()


@pytest.fixture(scope="session")
def before(fitted, tmp_path_factory):
    """A directory with an index, to be copied."""
    index = copy.copy(fitted)
    index.add(VECTORS[:300])
    index.remove([9, 10])
    path = tmp_path_factory.mktemp("before") / "index"
    index.save(path)
    return path


@pytest.fixture(scope="session")
def other():
    """What is saved over it."""
    index = pcpq.build(some_vectors(90, seed=5), metric="euclidean", n_lists=N_LISTS, keep="float32")
    index.add(some_vectors(9, seed=6))
    index.remove([4])
    return index
