"""pcpq build: formats, settings, budgets, interruptions."""

import json
import re

import numpy as np
import pytest
from command_line import SUFFIXES, on_terminal, one_line, save_as


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_goes_in_and_is_found(suffix, rows, names, found, run, tmp_path):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    some = np.abs(np.rint(20 * rows[:400]))  # whole numbers, which every format holds
    path, options = save_as(tmp_path, f"vectors.{suffix}", some, names[:400])
    metric = [] if suffix == "hdf5" else ["--metric", "cosine"]
    told = found("build", path, tmp_path / "index", *metric, *options)
    assert (told["vectors"], told["dimensions"], told["metric"]) == (400, 16, "cosine")
    part = ["--part", "train"] if suffix == "hdf5" else []
    code, out, _ = run("search", tmp_path / "index", path, "-k", 1, "--json", *options, *part)
    assert code == 0
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["ids"] for answer in answers] == [[answer["query"]] for answer in answers]
    named = suffix in ("npz", "parquet", "arrow", "jsonl", "txt")
    assert [answer["query"] for answer in answers] == (names[:400] if named else list(range(400)))


def test_queries_of_ann_benchmarks_are_its_test_part(rows, names, found, run, tmp_path):
    path, _ = save_as(tmp_path, "set.hdf5", rows[:300], names)
    found("build", path, tmp_path / "index")
    _, out, _ = run("search", tmp_path / "index", path, "--json")
    assert len(out.splitlines()) == 3


def test_a_metric_must_be_known_and_what_is_said_counts(rows, names, built, found, run, tmp_path):
    one_line(run("build", built / "rows.npy", tmp_path / "index"), "--metric")
    path, _ = save_as(tmp_path, "set.hdf5", rows[:50], names)
    assert found("build", path, tmp_path / "index", "--metric", "dot")["metric"] == "dot"


def test_settings_reach_the_index(built, found, tmp_path):
    settings = [
        "--keep",
        "int8",
        "--lists",
        "9",
        "--rotation",
        "random",
        "--codebooks",
        "per_list",
        "--seed",
        "3",
    ]
    found("build", built / "rows.npy", tmp_path / "index", "--metric", "euclidean", *settings, "--threads", 1)
    told = found("info", tmp_path / "index")
    wanted = {
        "metric": "euclidean",
        "keep": "int8",
        "n_lists": 9,
        "rotation": "random",
        "codebooks": "per_list",
        "seed": 3,
    }
    assert {name: told["settings"][name] for name in wanted} == wanted
    assert told["lists"] == 9
    found("build", built / "rows.npy", tmp_path / "codes", "--metric", "dot", "--keep", "none")
    assert found("info", tmp_path / "codes")["settings"]["keep"] is None


def test_a_budget_of_bytes_is_kept_and_explained(built, run, found, tmp_path):
    code, out, _ = run(
        "build", built / "rows.npy", tmp_path / "index", "--metric", "dot", "--bytes-per-vector", 40
    )
    assert code == 0
    assert len(out.splitlines()) == 2  # what was built, and what was chosen and why
    assert sum(found("info", tmp_path / "index")["bytes_per_vector"].values()) < 48
    arguments = ["build", built / "rows.npy", tmp_path / "other", "--metric", "dot", "--keep", "int8"]
    one_line(run(*arguments, "--bytes-per-vector", 40), "bytes_per_vector")


def test_an_index_is_replaced_only_by_force(stored, built, run, found, tmp_path):
    arguments = ["build", built / "rows.npy", stored, "--metric", "cosine"]
    one_line(run(*arguments), "--force")
    assert found("info", stored)["vectors"] == 500
    assert found(*arguments, "--force")["vectors"] == 2500
    assert found("info", stored)["vectors"] == 2500
    one_line(run("build", built / "rows.npy", built / "rows.npy", "--metric", "dot", "--force"), "is a file")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("mine")
    one_line(run("build", built / "rows.npy", tmp_path / "letters", "--metric", "dot", "--force"), "mine.txt")


def test_a_build_that_fails_leaves_nothing(tmp_path, run):
    np.save(tmp_path / "bad.npy", np.full((10, 4), np.nan, np.float32))
    one_line(run("build", tmp_path / "bad.npy", tmp_path / "index", "--metric", "dot"), "vectors[0, 0] is nan")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("place", ["write_new", "replace_file"])
def test_ctrl_c_while_writing_leaves_nothing(place, built, run, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"pcpq.store.store.{place}", stop)
    assert run("build", built / "rows.npy", tmp_path / "index", "--metric", "dot") == (
        130,
        "",
        "pcpq: stopped\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_during_a_build_leaves_nothing(tmp_path):
    # So many that a busy machine does not finish before it is told to stop.
    rows = np.random.default_rng(0).normal(size=(300_000, 32)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    arguments = ["build", tmp_path / "rows.npy", tmp_path / "index", "--metric", "dot"]
    code, said, out = on_terminal(*arguments, until=b"learning")
    assert (code, out) == (130, "")
    assert "pcpq: stopped" in said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


def test_a_budget_that_reaches_little_says_so(run, tmp_path, rows):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(3000, 32)).astype(np.float32))
    code, out, _ = run(
        "build", tmp_path / "rows.npy", tmp_path / "index", "--metric", "dot", "--bytes-per-vector", 30
    )
    assert code == 0
    assert re.search(r"recall of a search for 10 is at most about 0\.\d+", out)
