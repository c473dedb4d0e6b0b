"""Fixtures: good indexes of several kinds, and copies of them to damage."""

import faulthandler
import shutil

import numpy as np
import pytest
from damage import N_SMALL, VARIANTS, N, ids_of
from small_indexes import TORTURE, VECTORS, files, small_index


@pytest.fixture(autouse=True)
def _no_hanging():
    faulthandler.dump_traceback_later(7200 if TORTURE else 240, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A directory of every variant: a segment with rows removed, and a small one, whose lists share blocks."""
    directory = tmp_path_factory.mktemp("made")
    for variant, parameters in VARIANTS.items():
        index, ids = small_index(**parameters), ids_of(variant)
        for some in (slice(0, N), slice(N, N + N_SMALL)):
            known = {"place": np.arange(N + N_SMALL)[some]} if variant == "numbers" else None
            index.add(VECTORS[some], ids[some], attributes=known)
        index.remove(ids[3:20:4])
        index.save(directory / variant)
        kinds = {name.split("-")[0] for name in files(directory / variant)}
        expected = {"live", "lock", "manifest.json", "segment", "trained"}
        assert kinds == expected | ({"attributes"} if variant == "numbers" else set())
    return directory


@pytest.fixture(params=list(VARIANTS))
def variant(request):
    return request.param


@pytest.fixture
def path(made, variant, tmp_path):
    """A copy to damage."""
    shutil.copytree(made / variant, tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def numbers(made, tmp_path):
    """A copy of the simplest variant."""
    shutil.copytree(made / "numbers", tmp_path / "index")
    return tmp_path / "index"
