"""The command line on a cluster of its own: what it prints and writes is what it does without one."""

import json
import subprocess
import sys

import numpy as np
import pytest

import pcpq
from pcpq.datasets import load_words

pytestmark = pytest.mark.ray

pytest.importorskip("ray")


def pcpq_command(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "pcpq.cli", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_build_and_search_on_a_cluster_do_what_they_do_here(tmp_path):
    vectors, _ = load_words()
    (tmp_path / "parts").mkdir()
    for number in range(3):
        np.save(tmp_path / "parts" / f"{number}.npy", vectors[2000 * number : 2000 * (number + 1)])
    np.save(tmp_path / "all.npy", vectors[:6000])
    np.save(tmp_path / "queries.npy", vectors[6000:6020])
    there = json.loads(
        pcpq_command(
            tmp_path, "build", "parts/*.npy", "there.pcpq", "--metric", "dot", "--ray", "local", "--json"
        )
    )
    assert there["vectors"] == 6000
    pcpq_command(tmp_path, "build", "all.npy", "here.pcpq", "--metric", "dot")
    queries = vectors[6000:6020]
    expected = pcpq.open(tmp_path / "here.pcpq").search(queries, 5)
    np.testing.assert_array_equal(pcpq.open(tmp_path / "there.pcpq").search(queries, 5).ids, expected.ids)
    search = ("search", "here.pcpq", "queries.npy", "-k", "5", "--json")
    assert pcpq_command(tmp_path, *search, "--ray", "local", "--shards", "2") == pcpq_command(tmp_path, *search)
