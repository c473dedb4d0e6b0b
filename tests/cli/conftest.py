"""Fixtures: files and indexes, and commands that run on them."""

import json

import numpy as np
import pytest

import pcpq
from pcpq.formats import write_vectors


@pytest.fixture(scope="session")
def rows():
    """(2500, 16) float32: more than are searched exactly."""
    generator = np.random.default_rng(5)
    middles = generator.normal(size=(30, 16))
    return (middles[generator.integers(30, size=2500)] + 0.4 * generator.normal(size=(2500, 16))).astype(
        np.float32
    )


@pytest.fixture(scope="session")
def names(rows):
    return [f"word{i}" for i in range(len(rows))]


@pytest.fixture(scope="session")
def built(rows, names, tmp_path_factory):
    """Files and indexes that no test changes."""
    folder = tmp_path_factory.mktemp("built")
    np.save(folder / "rows.npy", rows)
    np.save(folder / "queries.npy", rows[:7] + np.float32(0.05))
    write_vectors(folder / "rows.jsonl", rows, names)
    pcpq.build(rows, metric="cosine").save(folder / "numbers.pcpq")
    pcpq.build(rows, names, metric="cosine").save(folder / "words.pcpq")
    pcpq.build(rows, metric="cosine", keep=None).save(folder / "codes.pcpq")
    return folder


@pytest.fixture
def stored(tmp_path, rows):
    """An index that a test may change."""
    pcpq.build(rows[:500], metric="dot").save(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def found(run):
    """The JSON of a command that must succeed."""

    def found(*arguments):
        code, out, error = run(*arguments, "--json")
        assert (code, error) == (0, "")
        return json.loads(out)

    return found
