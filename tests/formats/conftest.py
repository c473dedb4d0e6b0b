"""Fixtures: vectors that every format can hold, and readers that give a few rows at a time."""

import numpy as np
import pytest

from pcpq.io.formats import (
    vector_file,
)


@pytest.fixture(scope="session")
def vectors():
    """Small whole numbers, which every format can hold."""
    return np.random.default_rng(5).integers(0, 100, (300, 6)).astype(np.float32)


@pytest.fixture
def small_batches(monkeypatch):
    """Read about seven rows per batch."""
    monkeypatch.setattr(vector_file, "BATCH_ELEMENTS", 42)
