"""Fixture: an index in a directory."""

import pytest
from small_indexes import VECTORS, small_index


@pytest.fixture
def saved(tmp_path):
    index = small_index()
    index.add(VECTORS[:300])
    index.save(tmp_path / "index")
    return tmp_path / "index"
