"""Results of searches into files."""

import csv
import io
import json
import os

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import pcpq
from pcpq.io.formats import (
    RESULT_FORMATS,
    write_results,
)

pytestmark = pytest.mark.quick

IDS = np.array([[3, 1, -1], [2, -1, -1], [-1, -1, -1]])
NAMES = np.array([["a,b", '"', None], ["王", None, None], [None, None, None]], object)
SCORES = np.array([[0.1, 0.05, -np.inf], [1e-8, -np.inf, -np.inf], [-np.inf] * 3], np.float32)


def written(format, ids=IDS, scores=SCORES, **options):
    out = io.BytesIO()
    write_results(out, ids, scores, format, **options)
    return out.getvalue()


def test_a_table_is_aligned():
    assert written("table").decode().splitlines() == [
        "query  rank  id  score",
        "    0     1   3    0.1",
        "    0     2   1   0.05",
        "    1     1   2  1e-08",
    ]
    assert written("table", NAMES, queries=["x", "queen", "z"]).decode().splitlines() == [
        "query  rank  id   score",
        "x         1  a,b    0.1",
        'x         2  "     0.05',
        "queen     1  王   1e-08",
    ]


def test_a_table_cannot_drive_the_terminal():
    shown = written("table", np.array([["\x1b[2J\ud800\n"]], object), SCORES[:1, :1])
    assert shown.count(b"\n") == 2
    assert b"\x1b" not in shown
    assert b"\\x1b[2J\\ud800\\n" in shown


def test_csv_is_quoted():
    assert written("csv").decode() == "query,rank,id,score\n0,1,3,0.1\n0,2,1,0.05\n1,1,2,1e-08\n"
    found = list(csv.reader(io.StringIO(written("csv", NAMES, queries=['"', "\n", ""]).decode(), newline="")))
    assert found[1:] == [['"', "1", "a,b", "0.1"], ['"', "2", '"', "0.05"], ["\n", "1", "王", "1e-08"]]


def test_json_has_a_line_for_every_query():
    found = [json.loads(line) for line in written("jsonl", NAMES, queries=np.array([5, 6, 7])).splitlines()]
    assert found == [
        {"query": 5, "ids": ["a,b", '"'], "scores": [0.1, 0.05]},
        {"query": 6, "ids": ["王"], "scores": [1e-8]},
        {"query": 7, "ids": [], "scores": []},
    ]
    assert json.loads(written("jsonl", np.array([["\ud800"]], object), SCORES[:1, :1]))["ids"] == ["\ud800"]


def test_parquet_has_a_row_for_every_result():
    found = pyarrow.parquet.read_table(io.BytesIO(written("parquet")))
    assert found.to_pydict() == {
        "query": [0, 0, 1],
        "rank": [1, 2, 1],
        "id": [3, 1, 2],
        "score": SCORES[SCORES > -1].tolist(),
    }
    found = pyarrow.parquet.read_table(io.BytesIO(written("parquet", NAMES, queries=["x", "y", "z"])))
    assert found.column("id").to_pylist() == ["a,b", '"', "王"]
    assert found.column("query").to_pylist() == ["x", "x", "y"]


@pytest.mark.parametrize("format", RESULT_FORMATS)
def test_results_of_a_search_go_to_a_path_or_a_file(format, vectors, tmp_path):
    names = [f"n{i}" for i in range(300)]
    found = pcpq.build(vectors, names, metric="dot").search(vectors[:4], k=3)
    content = written(format, found.ids, found.scores)
    write_results(tmp_path / "found", found.ids, found.scores, format)
    assert (tmp_path / "found").read_bytes() == content
    assert os.listdir(tmp_path) == ["found"]
    with open(tmp_path / "open", "wb") as file:
        write_results(file, found.ids, found.scores, format)
        assert not file.closed
    assert (tmp_path / "open").read_bytes() == content


@pytest.mark.parametrize("format", RESULT_FORMATS)
def test_no_results_at_all_are_written_too(format):
    content = written(format, IDS[2:], SCORES[2:])
    if format == "parquet":
        assert pyarrow.parquet.read_table(io.BytesIO(content)).num_rows == 0
    else:
        assert len(content.splitlines()) == 1


def test_results_that_do_not_match_are_refused():
    for arguments, said in (
        ((IDS, SCORES, "xml"), "format is 'xml'; expected one of table, csv, jsonl, parquet"),
        ((IDS, SCORES[:2], "csv"), r"ids have shape \(3, 3\), scores \(2, 3\)"),
        ((IDS[0], SCORES[0], "csv"), r"\(3,\)"),
    ):
        with pytest.raises(ValueError, match=said):
            write_results(io.BytesIO(), *arguments)
    with pytest.raises(ValueError, match="2 names of queries for 3 queries"):
        written("csv", queries=["a", "b"])


ATTRIBUTES = pyarrow.table(
    {
        "id": ["x,y", None, "?", "\x1b", "?", "?", "?", "?", "?"],
        "n": [1.5, float("nan"), 0, None, 0, 0, 0, 0, 0],
        "at": pyarrow.array([1, 2, 0, None, 0, 0, 0, 0, 0], pyarrow.timestamp("ns")),
        "tags": [["a", "b"], [], None, [None], None, None, None, None, None],
        "raw": [b"\xff", b"a", b"", None, b"", b"", b"", b"", b""],
    }
)


def test_attributes_are_columns_of_tables_csv_and_parquet_files():
    assert written("table", attributes=ATTRIBUTES.select(["id", "n"])).decode().splitlines() == [
        "query  rank  id  score  attributes.id    n",
        "    0     1   3    0.1  x,y            1.5",
        "    0     2   1   0.05",
        "    1     1   2  1e-08  \\x1b",
    ]
    lines = list(csv.reader(io.StringIO(written("csv", attributes=ATTRIBUTES).decode())))
    assert lines == [
        ["query", "rank", "id", "score", "attributes.id", "n", "at", "tags", "raw"],
        ["0", "1", "3", "0.1", "x,y", "1.5", "1970-01-01 00:00:00.000000001", '["a", "b"]', "\\xff"],
        ["0", "2", "1", "0.05", "", "", "1970-01-01 00:00:00.000000002", "[]", "a"],
        ["1", "1", "2", "1e-08", "\x1b", "", "", "[null]", ""],
    ]
    table = pyarrow.parquet.read_table(io.BytesIO(written("parquet", attributes=ATTRIBUTES)))
    assert table.column_names == lines[0]
    assert table["tags"].to_pylist() == [["a", "b"], [], [None]]
    assert table.schema.field("at").type == pyarrow.timestamp("ns")


def test_attributes_are_objects_in_json():
    lines = [json.loads(line) for line in written("jsonl", attributes=ATTRIBUTES).splitlines()]
    assert [len(line["attributes"]) for line in lines] == [2, 1, 0]
    first = {"id": "x,y", "n": 1.5, "at": "1970-01-01 00:00:00.000000001", "tags": ["a", "b"], "raw": "\\xff"}
    assert lines[0]["attributes"][0] == first
    assert lines[1]["attributes"] == [{"id": "\x1b", "n": None, "at": None, "tags": [None], "raw": None}]
    with pytest.raises(ValueError, match="8 rows for 9 results"):
        written("csv", attributes=ATTRIBUTES.slice(1))
