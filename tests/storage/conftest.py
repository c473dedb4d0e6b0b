"""Fixtures: an index that is fitted, and one in a directory."""

import copy

import pytest
from small_indexes import VECTORS, small_index


@pytest.fixture(scope="session")
def fitted():
    return small_index()


@pytest.fixture
def saved(tmp_path, fitted):
    """An index of 300 rows in a directory."""
    index = copy.copy(fitted)
    index.add(VECTORS[:300])
    index.save(tmp_path / "index")
    return tmp_path / "index"
