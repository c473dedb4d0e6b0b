"""Every example of docs/cli.md, run: with files of the names that it gives."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from command_line import hear_ctrl_c

import pcpq
from pcpq.datasets import load_words
from pcpq.formats import write_vectors

pytestmark = pytest.mark.repository

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
# Distributions have no pages.
TEXT = PAGE.read_text() if PAGE.exists() else ""
BLOCKS = re.findall(r"## (pcpq \w+)\n.*?```sh\n(.*?)```", TEXT, re.DOTALL)
# All experiments take a while, even on few vectors; test_paper.py runs them.
SHORTER = {"pcpq paper": " --only six --threads 1"}
# Commands that run until Ctrl-C.
SERVING = {"pcpq explore"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder, and a home, with what the examples name."""
    h5py, pa = pytest.importorskip("h5py"), pytest.importorskip("pyarrow")
    import pyarrow.parquet

    folder = tmp_path_factory.mktemp("examples")
    vectors, words = load_words()
    vectors, words = vectors[:3000], words[:3000]
    pages = [f"page {i}" for i in range(3000)]
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "queries.npy", vectors[:20])
    write_vectors(folder / "words.txt", vectors, words)
    write_vectors(folder / "more.jsonl", vectors[:5] + 1, [f"new {i}" for i in range(5)])
    (folder / "gone.txt").write_text("prince\nnobody\n")
    (folder / "queries.jsonl").write_text(json.dumps({"vector": vectors[7].tolist()}) + "\n")

    def table(rows, ids):
        columns = {"id": ids, "embedding": list(rows), "lang": ["en", "de"] * (len(ids) // 2)}
        return pa.table(columns | {"year": [2020] * len(ids)})

    pyarrow.parquet.write_table(table(vectors, pages), folder / "pages.parquet")
    pyarrow.parquet.write_table(table(vectors[:4] + 1, pages[:2] + ["a", "b"]), folder / "new.parquet")
    home = folder / "home"
    for place, rows in ((folder, vectors), (home / "ann-benchmarks" / "data", vectors[:400, :8])):
        place.mkdir(parents=True, exist_ok=True)
        with h5py.File(place / "glove-100-angular.hdf5", "w") as file:
            file["train"], file["test"] = rows, rows[:30] + 0.1
            file.attrs["distance"] = "angular"
    for name in (".local/share/bash-completion/completions", ".zfunc"):
        (home / name).mkdir(parents=True)
    pcpq.build(vectors, words, metric="cosine").save(folder / "words.pcpq")
    attributes = {"lang": ["en", "de"] * 1500, "year": [2020] * 3000, "title": ["a title"] * 3000}
    pcpq.build(vectors, pages, metric="dot", attributes=attributes).save(folder / "pages.pcpq")
    results = Path(__file__).parent.parent / "benchmarks" / "results"
    (folder / "paper").mkdir()
    shutil.copy(results / "paper_lastfm_8bit.json", folder / "paper")
    return folder


@pytest.mark.parametrize(("command", "block"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_examples_of_the_page_run(command, block, files, tmp_path):
    folder = tmp_path / "here"
    shutil.copytree(files, folder)
    if command == "pcpq build":
        shutil.rmtree(folder / "pages.pcpq")
    # `pcpq` is this Python's, wherever it is installed.
    shell = f'pcpq() {{ "{sys.executable}" -m pcpq.cli "$@"; }}\n'
    for line in block.strip().splitlines():
        if "--ray" in line:  # it wants a cluster: tests/integrations/test_ray_cli.py has one
            continue
        running = subprocess.Popen(
            ["bash", "-ec", shell + line + SHORTER.get(command, "")],
            cwd=folder,
            env=os.environ | {"HOME": str(folder / "home"), "BROWSER": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=hear_ctrl_c,
        )
        with running:
            expected = (0, "")
            if command in SERVING:
                address = running.stdout.readline().strip()
                assert address.startswith("http://127.0.0.1:"), line
                urllib.request.urlopen(address, timeout=60).close()
                os.killpg(running.pid, signal.SIGINT)
                expected = (130, "pcpq: stopped\n")
            _, errors = running.communicate(timeout=300)
        assert (running.returncode, errors) == expected, line


def test_every_command_has_an_example():
    listed = re.findall(r"\| \[`(pcpq \w+)`\]", PAGE.read_text())
    assert listed
    assert [command for command, _ in BLOCKS] == listed
