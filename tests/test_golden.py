"""Indexes that earlier versions stored can be opened, and answer as before."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import pcpq

pytestmark = [pytest.mark.kernels, pytest.mark.portable, pytest.mark.quick, pytest.mark.arm, pytest.mark.golden]

ROOT = Path(__file__).parent
STORED = sorted(path for path in (ROOT / "golden").glob("v*/*") if path.is_dir())


@pytest.fixture
def golden(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT.parent / "tools"))
    sys.modules.pop("make_golden", None)
    import make_golden

    return make_golden


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_stored_index_answers_as_it_did(path, golden, simd_level):
    expected = json.loads(path.with_suffix(".json").read_text())
    with pcpq.open(path) as index:
        index.verify()
        found = golden.answers(index)
    assert found["ids"] == expected["ids"]
    assert np.allclose(found["scores"], expected["scores"], rtol=1e-6)


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_stored_index_can_be_written_on(path, golden, tmp_path):
    shutil.copytree(path, tmp_path / "index")
    with pcpq.open(tmp_path / "index", mode="a") as index:
        count = len(index)
        kind = index.search(golden.vectors()[0], k=1).ids[0]
        index.add(golden.vectors()[-1:], ["new"] if isinstance(kind, str) else [9999])
        index.compact()
        index.commit()
    with pcpq.open(tmp_path / "index") as index:
        index.verify()
        assert len(index) == count + 1


def test_there_are_indexes_of_every_kind():
    stored = {f"{path.parent.name}-{path.name}" for path in STORED}
    assert stored == {
        "v1-plain",
        "v1-scaled",
        "v1-exact",
        "v2-largest",
        "v2-wide",
        "v2-wide-scaled",
        "v2-two-lists",
        "v2-projected",
    }
