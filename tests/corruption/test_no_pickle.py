"""Nothing in a stored index is run."""

import subprocess
import sys
from pathlib import Path

import pytest

import pcpq

pytestmark = [pytest.mark.kernels, pytest.mark.torture]


def test_opening_an_index_imports_and_runs_nothing_from_its_files(numbers):
    """With pickle out of reach, everything works."""
    code = """
import sys
import numpy as np, pcpq
import pickle
def never(*arguments, **named):
    raise SystemExit("pickle")
pickle.loads = pickle.load = pickle.Unpickler = never
index = pcpq.open(sys.argv[1])
index.search(np.ones(8, np.float32))
with pcpq.open(sys.argv[1], mode="a") as writer:
    writer.remove([0])
    writer.compact()
    writer.commit()
print("done")
"""
    command = [sys.executable, "-c", code, str(numbers)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == "done\n"


def test_no_module_of_storage_knows_pickle():
    directory = Path(pcpq.store.__file__).parent
    for module in directory.glob("*.py"):
        text = module.read_text()
        assert "pickle" not in text, module
        assert "marshal" not in text, module
        assert "np.load(" not in text, module
