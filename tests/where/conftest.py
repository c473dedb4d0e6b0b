"""An index with attributes."""

import numpy as np
import pyarrow as pa
import pytest
from conditions import N

import pcpq


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(5).normal(size=(N, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def table():
    numbers = np.arange(N)
    return pa.table(
        {
            "lang": np.where(numbers % 3 == 0, "en", "de"),
            "year": 2000 + numbers % 25,
            "tags": [[str(i), str(i % 7)] for i in range(N)],
            "place": [{"town": f"t{i}"} for i in range(N)],
            "meta": [f'{{"a": {i}, "b": ["x"]}}' for i in range(N)],
            "day": pa.array([f"20{10 + i % 20}-03-04" for i in range(N)]).cast(pa.date32()),
        }
    )


@pytest.fixture(scope="module")
def index(vectors, table):
    return pcpq.build(vectors, metric="dot", n_lists=20, attributes=table)
