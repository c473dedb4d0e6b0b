"""Fixtures: all SIMD levels, a seeded generator, and the command line."""

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


@pytest.fixture
def run(capsys):
    """A command: its exit code, and what it wrote."""
    from pcpq.cli import main

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture(scope="session")
def clustered_vectors():
    """(3000, 24) float32 with some structure: a few directions, lengths spread threefold."""
    generator = np.random.default_rng(11)
    middles = generator.normal(size=(20, 24))
    rows = middles[generator.integers(20, size=3000)] + 0.6 * generator.normal(size=(3000, 24))
    return (rows * generator.uniform(0.5, 1.5, size=(3000, 1))).astype(np.float32)
