"""pcpq search: queries, settings, and where results go."""

import json
import os
import subprocess

import numpy as np
import pytest
from command_line import one_line, program

import pcpq
from pcpq.cli import main

# Search


def test_results_come_in_every_form(built, run, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    expected = pcpq.open(built / "words.pcpq").search(np.load(built / "queries.npy"), k=3)
    search = ["search", built / "words.pcpq", built / "queries.npy", "-k", 3]
    _, out, _ = run(*search)
    assert out.splitlines()[0].split() == ["query", "rank", "id", "score"]
    assert out.splitlines()[1].split()[:3] == ["0", "1", expected.ids[0, 0]]
    _, out, _ = run(*search, "--format", "csv")
    assert [line.split(",")[2] for line in out.splitlines()[1:]] == expected.ids.ravel().tolist()
    _, out, _ = run(*search, "--json")
    assert [json.loads(line)["ids"] for line in out.splitlines()] == expected.ids.tolist()
    code, out, _ = run(*search, "--out", tmp_path / "found.parquet")
    assert code == 0
    assert "7 queries" in out
    assert parquet.read_table(tmp_path / "found.parquet")["id"].to_pylist() == expected.ids.ravel().tolist()
    _, out, _ = run(*search, "--out", tmp_path / "found.csv", "--format", "jsonl", "--json")
    assert json.loads(out)["queries"] == 7
    assert len((tmp_path / "found.csv").read_text().splitlines()) == 7


def test_a_word_is_looked_up_and_is_no_answer_to_itself(built, rows, found, run):
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    best = np.argsort(-(unit @ unit[4]))[1:4].tolist()
    assert found("search", built / "words.pcpq", "--word", "word4", "-k", 3) == {
        "query": "word4",
        "ids": [f"word{i}" for i in best],
        "scores": pytest.approx((unit @ unit[4])[best].tolist(), abs=1e-4),
    }
    assert found("search", built / "numbers.pcpq", "--id", 4, "-k", 3)["ids"] == best
    one_line(run("search", built / "words.pcpq", "--word", "missing"), "missing is not in the index")
    one_line(run("search", built / "numbers.pcpq", "--word", "missing"), "whole numbers")


def test_queries_come_from_standard_input(built, rows, run, monkeypatch):
    lines = "\n".join(json.dumps({"id": f"q{i}", "vector": rows[i].tolist()}) for i in range(3))
    process = program("search", built / "numbers.pcpq", "-", "-k", 1, "--json", stdin=subprocess.PIPE)
    out, error = process.communicate(lines.encode(), timeout=60)
    assert error == b""
    answers = [json.loads(line) for line in out.splitlines()]
    assert [(answer["query"], answer["ids"]) for answer in answers] == [("q0", [0]), ("q1", [1]), ("q2", [2])]
    process = program("search", built / "numbers.pcpq", "-", stdin=subprocess.PIPE)
    _, error = process.communicate(b"{]", timeout=60)
    assert error.startswith(b"pcpq: stdin, line 1: is not JSON")


def test_settings_of_a_search_are_those_of_the_library(built, run):
    queries, index = np.load(built / "queries.npy"), pcpq.open(built / "numbers.pcpq")
    search = ["search", built / "numbers.pcpq", built / "queries.npy", "--json"]
    for options, settings in (
        (["--probes", "2", "--rerank", "20"], {"probes": 2, "rerank": 20}),
        (["--target-recall", "0.5"], {"target_recall": 0.5}),
    ):
        _, out, _ = run(*search, *options)
        expected = index.search(queries, **settings).ids.tolist()
        assert [json.loads(line)["ids"] for line in out.splitlines()] == expected
    one_line(run(*search, "--probes", "2", "--target-recall", "0.5"), "give one of them")
    one_line(run(*search, "-k", "0"), "k is 0")
    one_line(run(*search, "--format", "csv"), "--json and --format csv")


def test_a_target_out_of_reach_is_one_line_on_stderr(built, run):
    code, _, error = run("search", built / "codes.pcpq", built / "queries.npy", "--target-recall", 1)
    assert code == 0
    assert error.startswith("pcpq: a recall of 1.0 at k=10 is out of reach")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_columns_become_attributes_to_ask_about(format, rows, tmp_path, found, run):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    from pyarrow import parquet

    years = (2000 + np.arange(300) % 30).tolist()
    path = tmp_path / f"pages.{format}"
    if format == "parquet":
        parquet.write_table(pyarrow.table({"vector": list(rows[:300]), "year": years}), path)
    else:
        lines = [json.dumps({"vector": rows[i].tolist(), "year": year}) for i, year in enumerate(years)]
        path.write_text("\n".join(lines))
    found("build", path, tmp_path / "index", "--metric", "dot", "--attributes", "year")
    _, out, _ = run("search", tmp_path / "index", path, "-k", 4, "--where", "year >= 2029", "--json")
    assert {i % 30 for line in out.splitlines() for i in json.loads(line)["ids"]} == {29}
    found("add", tmp_path / "index", path, "--attributes", "year")
    arguments = ["build", path, tmp_path / "other", "--metric", "dot", "--attributes", "colour"]
    one_line(run(*arguments), "no column 'colour'")


# Where results go


def test_results_replace_a_file_only_if_told_to(built, run, tmp_path):
    queries = tmp_path / "queries.jsonl"
    queries.write_bytes((built / "rows.jsonl").read_bytes()[:2000].rsplit(b"\n", 1)[0])
    before = queries.read_bytes()
    arguments = ("search", built / "numbers.pcpq", queries, "-k", 2, "--out", queries)
    assert "exists already" in run(*arguments)[2]
    assert queries.read_bytes() == before
    assert run(*arguments, "--force")[0] == 0
    assert queries.read_bytes() != before


def test_results_are_written_where_a_link_leads(built, run, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    arguments = ("search", built / "numbers.pcpq", built / "queries.npy", "--out", tmp_path / "link.csv")
    assert run(*arguments, "--force")[0] == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert "query,rank" in (tmp_path / "real.csv").read_text()


def test_a_pipe_stays_a_pipe(built, tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    reader = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
    assert main(["search", str(built / "numbers.pcpq"), str(built / "queries.npy"), "--out", str(path)]) == 0
    assert reader.communicate(timeout=60)[0].startswith(b"query,rank")
    assert path.is_fifo()


def test_results_of_no_known_kind_are_refused(built, run, tmp_path):
    code, _, error = run("search", built / "numbers.pcpq", built / "queries.npy", "--out", tmp_path / "x.npy")
    assert code == 2
    assert "x.npy: has none of the suffixes .csv, .jsonl" in error
    assert not (tmp_path / "x.npy").exists()
