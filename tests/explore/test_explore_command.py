"""The command `pcpq explore`: its address, its errors, and its end."""

import json
import signal
import socket
import sys
import urllib.request

import numpy as np
import pytest
from command_line import SUFFIXES, one_line, program, save_as

import pcpq
from pcpq.cli.exploring import measure_once
from pcpq.index import state_of


@pytest.fixture
def served(monkeypatch):
    """What would be served: the overview and the port of each call."""
    pytest.importorskip("uvicorn")
    calls = []

    def serve(view, port, ready):
        calls.append((view.overview(), port))
        ready("http://127.0.0.1:1/token/")

    monkeypatch.setattr("pcpq.explore.server.serve", serve)
    return calls


@pytest.mark.parametrize("as_json", [True, False])
def test_the_program_prints_an_address_and_ctrl_c_ends_it(stored, as_json):
    pytest.importorskip("uvicorn")
    process = program("explore", stored / "words", *(["--json"] if as_json else []))
    line = process.stdout.readline().decode()
    if as_json:
        found = json.loads(line)
        assert found["index"] == str(stored / "words")
        address = found["address"]
    else:
        address = line.strip()
        assert process.stdout.readline() == b"Ctrl-C ends it.\n"
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(f"{address}data/overview", timeout=60) as answer:
        assert json.load(answer)["stats"]["vectors"] == 2500
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (130, b"", b"pcpq: stopped\n")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_queries_are_read_in_every_format(suffix, run, served, stored, rows, tmp_path):
    path, more = save_as(tmp_path, f"queries.{suffix}", rows[:5] * 3, [f"name{i}" for i in range(5)])
    assert run("explore", stored / "words", "--queries", path, *more)[0] == 0
    assert served[0][0]["queries"] == {"name": path.name, "rows": 3 if suffix == "hdf5" else 5}


def test_no_browser_is_opened_unless_it_is_wanted(run, served, stored, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    assert run("explore", stored / "words", "--port", 8123)[0] == 0
    assert (opened, served[0][1]) == ([], 8123)
    assert run("explore", stored / "words", "--browser")[0] == 0
    assert opened == ["http://127.0.0.1:1/token/"]


def test_a_browser_that_is_missing_is_said(run, served, stored, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    _, out, error = run("explore", stored / "words", "--browser")
    assert out.startswith("http://127.0.0.1:1/token/\n")
    assert error == "pcpq: found no browser: open the address yourself\n"


@pytest.mark.parametrize("package", ["uvicorn", "starlette"])
def test_a_missing_extra_is_named(package, run, stored, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("pcpq.explore.", "starlette", "uvicorn"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    one_line(run("explore", stored / "words"), f'{package} is missing: pip install "pcpq[explore]"')


def test_errors_are_one_line(run, stored, rows, tmp_path):
    pytest.importorskip("uvicorn")
    np.save(tmp_path / "short.npy", rows[:, :3])
    one_line(run("explore", tmp_path / "nothing"), "nothing does not exist")
    one_line(run("explore", stored / "words", "--port", 65536), "port is 65536")
    one_line(run("explore", stored / "words", "--port", -1), "port is -1")
    one_line(run("explore", stored / "words", "--queries", tmp_path / "short.npy"), "have 3 dimensions")
    one_line(run("explore", stored / "words", "--queries", tmp_path / "nothing.npy"), "No such file")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        one_line(run("explore", stored / "words", "--port", port), f"port {port} is in use")


def test_a_port_can_be_used_again_at_once(stored):
    pytest.importorskip("uvicorn")
    port = 0
    for _ in range(2):
        process = program("explore", stored / "few", "--json", "--port", port)
        address = json.loads(process.stdout.readline())["address"]
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"pcpq explore" in answer.read()
        port = int(address.split(":")[2].split("/")[0])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130


def test_recall_that_was_never_measured_is_measured_in_memory_only(rows, tmp_path):
    index = pcpq.Index(metric="dot").fit(rows)
    index.add(rows)
    index.save(tmp_path / "index")
    before = {path.name: path.read_bytes() for path in (tmp_path / "index").iterdir()}
    with pcpq.open(tmp_path / "index") as opened:
        assert state_of(opened).snapshot.recall is None
        measure_once(opened)
        assert state_of(opened).snapshot.recall is not None
    assert {path.name: path.read_bytes() for path in (tmp_path / "index").iterdir()} == before


def test_an_index_without_vectors_is_not_measured(stored):
    for name in ("empty", "few", "codes"):
        with pcpq.open(stored / name) as index:
            before = state_of(index).snapshot.recall
            measure_once(index)
            assert state_of(index).snapshot.recall is before
