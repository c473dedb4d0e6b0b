"""Fixtures: all SIMD levels, and a seeded generator."""

from __future__ import annotations

import numpy as np
import pytest

from pcpq import _core


@pytest.fixture(params=_core.simd_levels())
def simd_level(request):
    """Run a test once per SIMD level."""
    _core.set_simd_level(request.param)
    yield request.param
    _core.set_simd_level("auto")


@pytest.fixture
def generator():
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def clustered_vectors():
    """(3000, 24) float32 with some structure: a few directions, lengths spread threefold."""
    generator = np.random.default_rng(11)
    middles = generator.normal(size=(20, 24))
    rows = middles[generator.integers(20, size=3000)] + 0.6 * generator.normal(size=(3000, 24))
    return (rows * generator.uniform(0.5, 1.5, size=(3000, 1))).astype(np.float32)
