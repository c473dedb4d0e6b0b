"""pcpq info, tune, bench, verify and doctor."""

import json
import warnings

import numpy as np
import pytest
from command_line import one_line

import pcpq


def test_info_tells_what_an_index_is(built, run, found):
    told = found("info", built / "words.pcpq")
    assert (told["vectors"], told["dimensions"], told["ids"], told["segments"]) == (2500, 16, "str", 1)
    assert [choice["target_recall"] for choice in told["recall"]["choices"]] == [0.8, 0.9, 0.95, 0.99]
    _, out, _ = run("info", built / "words.pcpq")
    for part in ("2,500", "cosine", "kept", "codes", "as float32", "64.0", "target recall"):
        assert part in out


def test_tuning_is_kept(built, rows, found, run, tmp_path):
    index = tmp_path / "index"
    pcpq.build(rows, metric="cosine").save(index)
    told = found("tune", index, built / "queries.npy")
    assert (told["measured"], told["queries"]) == ("given", 7)
    assert found("info", index)["recall"]["measured"] == "given"
    _, out, _ = run("tune", index, "-k", 5)
    assert out.splitlines()[0].startswith("k=5, measured with")
    assert found("info", index)["recall"]["measured"] == "held out"


def test_codes_alone_are_tuned_by_the_vectors_they_were_made_of(built, rows, found, run, tmp_path):
    index = tmp_path / "index"
    pcpq.build(rows, metric="cosine", keep=None).save(index)
    one_line(run("tune", index), "--vectors")
    one_line(run("tune", index, "--vectors", built / "rows.npy"), "QUERIES")
    told = found("tune", index, built / "queries.npy", "--vectors", built / "rows.npy")
    assert told["queries"] == 7


@pytest.mark.parametrize("name", ["numbers", "words", "codes"])
def test_bench_finds_the_recall_that_brute_force_finds(name, built, rows, found, monkeypatch):
    monkeypatch.setattr("pcpq.cli.benching.SECONDS", 0)
    vectors = built / ("rows.jsonl" if name == "words" else "rows.npy")
    own = [] if name == "numbers" else ["--vectors", vectors]
    told = found("bench", built / f"{name}.pcpq", built / "queries.npy", *own, "-k", 5, "--targets", 0.3, 0.9)
    unit, queries = (
        a / np.linalg.norm(a, axis=1, keepdims=True) for a in (rows, np.load(built / "queries.npy"))
    )
    best = np.argsort(-(queries @ unit.T), axis=1)[:, :5]
    index = pcpq.open(built / f"{name}.pcpq")
    for row in told["rows"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # codes alone may not reach a target
            ids = index.search(queries, 5, target_recall=row["target_recall"]).ids
        numbers = [[int(str(i).removeprefix("word")) for i in line] for line in ids]
        expected = np.mean([len(np.intersect1d(a, b)) / 5 for a, b in zip(numbers, best, strict=True)])
        assert row["recall"] == pytest.approx(expected, abs=1e-6)
        assert row["queries_per_second"]["1"] > 0


@pytest.mark.parametrize(
    "arguments", [[], ["rows.npy"], ["rows.npy", "--vectors", "rows.npy"], ["--vectors", "rows.npy"]]
)
def test_no_vector_is_an_answer_to_itself_in_bench(arguments, built, found, run, monkeypatch):
    from pcpq.cli.exact import Exam

    exams = []
    recall = Exam.recall
    monkeypatch.setattr(Exam, "recall", lambda self, ids, k: exams.append((self, ids)) or recall(self, ids, k))
    monkeypatch.setattr("pcpq.cli.benching.SECONDS", 0)
    paths = [built / part if part.endswith("npy") else part for part in arguments]
    told = found("bench", built / "numbers.pcpq", *paths, "--targets", 0.95)
    exam, ids = exams[0]
    assert (exam.own >= 0).all()
    assert not (ids == exam.own[:, None]).any()
    assert not (exam.truth.ids == exam.own[:, None]).any()
    assert ids.shape == (told["queries"], 10)
    assert told["rows"][0]["recall"] > 0.85


def test_bench_refuses_answers_that_are_not_of_the_index(built, rows, run, tmp_path):
    np.save(tmp_path / "half.npy", rows[:1000])
    one_line(run("bench", built / "codes.pcpq"), "--vectors")
    one_line(
        run("bench", built / "codes.pcpq", "--vectors", tmp_path / "half.npy"), "1000 vectors, the index 2500"
    )
    one_line(run("bench", built / "words.pcpq", "--vectors", built / "rows.npy"), "are strings")
    one_line(run("bench", built / "words.pcpq", "-k", 1000), "k is 1000")


def test_verify_says_that_an_index_is_whole(stored, run, found):
    assert "500 vectors" in run("verify", stored)[1]
    assert found("verify", stored)["ok"]


@pytest.mark.parametrize("part", ["codes", "kept", "ids"])
def test_verify_names_the_file_that_is_damaged(stored, part, run):
    from safetensors import safe_open

    path = next(stored.glob("segment-*"))
    with safe_open(path, "np") as file:
        damaged = file.get_tensor(part).tobytes()
    content = path.read_bytes()
    at = content.index(damaged) + len(damaged) // 2
    path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
    one_line(run("verify", stored), path.name, code=1)
    code, out, _ = run("verify", stored, "--json")
    assert code == 1
    assert not json.loads(out)["ok"]


def test_a_backup_is_an_index(stored, tmp_path, run, found):
    assert "500 vectors" in run("backup", stored, tmp_path / "backup")[1]
    assert found("verify", tmp_path / "backup")["vectors"] == 500
    assert found("backup", stored, tmp_path / "copy", "--copy")["vectors"] == 500
    assert found("verify", tmp_path / "copy")["ok"]
    one_line(run("backup", stored, tmp_path / "backup"), "is an index already")


def test_verify_of_nothing_is_an_error(tmp_path, built, run):
    one_line(run("verify", tmp_path / "nothing"), "does not exist")
    one_line(run("verify", built / "rows.npy"), "is not a directory")


def test_the_doctor_finds_all_well(run, found):
    from pcpq import _core

    level = _core.simd_level()
    code, out, _ = run("doctor")
    assert code == 0
    assert "all tests passed" in out
    assert _core.simd_level() == level
    told = found("doctor")
    assert told["ok"]
    assert told["simd_levels"] == _core.simd_levels()
    assert len(told["checks"]) == 3 * len(_core.simd_levels()) + 1


def test_the_doctor_notices_wrong_answers(run, monkeypatch):
    from pcpq.cli import doctor

    exact = doctor.exact_scores
    monkeypatch.setattr(doctor, "exact_scores", lambda *rows: exact(*rows) + 1)
    code, out, error = run("doctor")
    assert code == 1
    assert "FAILED" in out
    assert error.startswith("pcpq: self-test: ")
