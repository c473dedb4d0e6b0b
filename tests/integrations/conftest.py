"""Fixtures: samples for scikit-learn's estimators."""

import pytest
from sklearn.datasets import make_blobs

from pcpq.datasets import load_words


@pytest.fixture(scope="session")
def words():
    return load_words()[0][:6000]


@pytest.fixture
def blobs():
    return make_blobs(300, 12, centers=6, random_state=3)
