"""pcpq add, remove and export."""

import json

import numpy as np
import pytest
from command_line import one_line

import pcpq
from pcpq.formats import write_vectors


def test_adding_removing_and_replacing_last(built, rows, names, found, run, tmp_path):
    write_vectors(tmp_path / "first.jsonl", rows[:100], names[:100])
    write_vectors(tmp_path / "second.jsonl", -rows[90:120], names[90:120])
    index = tmp_path / "index"
    found("build", tmp_path / "first.jsonl", index, "--metric", "dot")
    one_line(run("add", index, tmp_path / "second.jsonl"), "word90 is in the index already; --replace")
    told = found("add", index, tmp_path / "second.jsonl", "--replace")
    assert told == {"index": str(index), "added": 20, "replaced": 10, "vectors": 120}
    (tmp_path / "gone.txt").write_text("word3\nword4\nmissing\n")
    told = found("remove", index, tmp_path / "gone.txt", "--id", "word5")
    assert told == {"index": str(index), "asked": 4, "removed": 3, "vectors": 117}
    assert found("remove", index, tmp_path / "second.jsonl")["removed"] == 30
    stored = pcpq.open(index)
    assert "word3" not in stored
    assert "word6" in stored
    assert "word119" not in stored


def test_numbers_are_removed_by_lines_and_arrays(stored, found, run, tmp_path):
    np.save(tmp_path / "gone.npy", np.arange(10))
    assert found("remove", stored, tmp_path / "gone.npy")["removed"] == 10
    assert found("remove", stored, "--id", "9", "--id", "10")["removed"] == 1
    one_line(run("remove", stored, "--id", "king"), "whole numbers")
    one_line(run("add", stored, tmp_path / "gone.npy"), "axes")
    (tmp_path / "empty.npy").touch()
    one_line(run("remove", stored, tmp_path / "empty.npy"), "empty.npy: cannot be read")
    np.save(tmp_path / "all.npy", np.arange(500))
    assert found("remove", stored, tmp_path / "all.npy")["vectors"] == 0
    one_line(run("bench", stored), "has 0 vectors")
    assert found("info", stored)["vectors"] == 0


def test_a_locked_index_names_the_process_that_writes(stored, built, run):
    with pcpq.open(stored, mode="a"):
        one_line(run("remove", stored, "--id", "1"), "is being written by process")


@pytest.mark.parametrize("suffix", ["npy", "fvecs", "fbin", "parquet", "jsonl", "txt"])
def test_vectors_come_out_as_they_went_in(suffix, rows, names, found, run, tmp_path):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    index, out = tmp_path / "index", tmp_path / f"out.{suffix}"
    with_ids = suffix in ("parquet", "jsonl", "txt")
    pcpq.build(rows[:300], names[:300], metric="dot", keep="float32").save(index)
    with pcpq.open(index, mode="a") as writer:  # several parts, and holes in them
        writer.add(rows[300:350], names[300:350])
        writer.remove(["word7"])
        writer.commit()
    told = found("export", index, out)
    assert told == {
        "out": str(out),
        "format": "text" if suffix == "txt" else suffix,
        "vectors": 349,
        "with_ids": with_ids,
    }
    read = pcpq.formats.read_vectors(out)
    np.testing.assert_array_equal(read.array(), np.delete(rows[:350], 7, axis=0))
    if with_ids:
        assert read.ids() == [name for name in names[:350] if name != "word7"]
    one_line(run("export", index, out), "--force")
    _, said, _ = run("export", index, out, "--force")
    assert ("without ids" in said) == (not with_ids)


def test_a_format_that_is_not_written_is_refused_with_those_that_are(run, tmp_path, rows):
    index = tmp_path / "index"
    pcpq.build(rows[:50], metric="dot").save(index)
    said = "out.csv: unknown format: files end in .npy, .fvecs, .fbin, .parquet, .jsonl, .txt"
    one_line(run("export", index, tmp_path / "out.csv"), said)
    one_line(run("export", index, tmp_path / "out.csv"), "--format")
    one_line(run("export", index, tmp_path / "out.npz"), "expected npy, fvecs, fbin, parquet, jsonl, text")
    assert not (tmp_path / "out.csv").exists()
    code, _, _ = run("export", index, tmp_path / "out.csv", "--format", "jsonl")
    assert code == 0


def test_attributes_of_an_index_come_along_with_what_is_added(run, tmp_path, rows):
    def lines(first, count):
        objects = ({"id": f"w{i}", "vector": rows[i].tolist(), "len": i} for i in range(first, first + count))
        return "".join(json.dumps(one) + "\n" for one in objects)

    (tmp_path / "some.jsonl").write_text(lines(0, 50))
    (tmp_path / "more.jsonl").write_text(lines(50, 20))
    index = tmp_path / "index"
    assert run("build", tmp_path / "some.jsonl", index, "--metric", "dot", "--attributes", "len")[0] == 0
    assert run("add", index, tmp_path / "more.jsonl")[0] == 0
    with pcpq.open(index) as opened:
        assert len(opened) == 70
        assert set(opened.search(rows[60], k=3, where="len = 60").ids) == {"w60", None}


def test_vectors_are_removed_by_a_condition(rows, found, run, tmp_path):
    pytest.importorskip("duckdb")
    index = tmp_path / "index"
    pcpq.build(rows[:200], metric="dot", attributes={"year": np.arange(200)}).save(index)
    told = found("remove", index, "--where", "year < 50")
    assert told == {"index": str(index), "removed": 50, "vectors": 150}
    assert run("remove", index, "--where", "year < 50")[1] == f"{index}: 0 removed, 150 vectors now\n"
    one_line(run("remove", index, "--where", "year < 50", "--id", "3"), "not both")
    one_line(run("remove", index, "--where", "nope"), "nope")
    one_line(run("remove", index), "give FILE, --id or --where")
