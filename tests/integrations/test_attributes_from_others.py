"""Attributes as frames of pandas and polars, and as tensors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import pcpq

library = pytest.importorskip
library("pyarrow")
library("duckdb")

N, D = 400, 8


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(4).normal(size=(N, D)).astype(np.float32)


def pandas_attributes(rows):
    return library("pandas").DataFrame(
        {
            "number": range(rows),
            "word": [f"w{i}" for i in range(rows)],
            "odd": [i % 2 == 1 for i in range(rows)],
        },
        index=[f"row {i}" for i in range(rows)],
    )


def polars_attributes(rows):
    return library("polars").DataFrame(
        {
            "number": range(rows),
            "word": [f"w{i}" for i in range(rows)],
            "odd": [i % 2 == 1 for i in range(rows)],
        }
    )


def torch_attributes(rows):
    torch = library("torch")
    numbers = torch.arange(rows)
    return {"number": numbers, "word": [f"w{i}" for i in range(rows)], "odd": numbers % 2 == 1}


ATTRIBUTES = [pandas_attributes, polars_attributes, torch_attributes]


@pytest.mark.parametrize("make", ATTRIBUTES)
def test_attributes_may_be_frames(make, vectors, tmp_path):
    ours = pcpq.build(vectors, metric="dot", attributes=make(N))
    ours.save(tmp_path / "words.pcpq")
    for index in (ours, pcpq.open(tmp_path / "words.pcpq")):
        table = index.get([7, 3])
        assert table.column_names == ["number", "word", "odd"]  # the index of a frame is none
        assert table.to_pydict() == {"number": [7, 3], "word": ["w7", "w3"], "odd": [True, True]}
        found = index.search(vectors[:5], 3, where="odd AND word <> 'w9' AND number < 100")
        assert (found.ids % 2 == 1).all()
        assert (found.ids < 100).all()


def test_attributes_of_several_libraries_go_together(vectors):
    for first in ATTRIBUTES:
        for second in ATTRIBUTES:
            ours = pcpq.build(vectors[:200], metric="dot", attributes=first(200))
            ours.add(vectors[200:], attributes=second(200))
            assert ours.get([5, 205])["word"].to_pylist() == ["w5", "w5"]
            found = ours.search(vectors[:3], 2, where="word = 'w11'")
            assert {tuple(sorted(row)) for row in found.ids.tolist()} == {(11, 211)}
            ours.compact()
            assert ours.get([211])["number"].to_pylist() == [11]


def test_text_in_all_the_ways_of_polars_is_understood(vectors):
    polars = library("polars")
    frame = polars.DataFrame(
        {
            "kind": polars.Series(["a", "b"] * (N // 2), dtype=polars.Categorical),
            "tags": [["x", str(i)] for i in range(N)],
            "place": [{"town": f"t{i}", "size": i} for i in range(N)],
            "raw": [bytes([i % 256]) for i in range(N)],
        }
    )
    ours = pcpq.build(vectors, metric="dot", attributes=frame)
    assert ours.get([9]).to_pydict() == {
        "kind": ["b"],
        "tags": [["x", "9"]],
        "place": [{"town": "t9", "size": 9}],
        "raw": [b"\t"],
    }
    where = "kind = 'a' AND place.town = 't8' AND list_contains(tags, '8')"
    assert ours.search(vectors[0], 1, where=where).ids.tolist() == [8]


def test_categories_and_lists_of_several_libraries_go_together(vectors):
    pandas, polars = library("pandas"), library("polars")
    words, tags = ["a", "b"] * 100, [["x", str(i)] for i in range(200)]
    first = polars.DataFrame({"kind": polars.Series(words, dtype=polars.Categorical), "tags": tags})
    second = pandas.DataFrame({"kind": pandas.Series(words, dtype="category"), "tags": tags})
    for one, other in ((first, second), (second, first), (first, {"kind": words, "tags": tags})):
        ours = pcpq.build(vectors[:200], metric="dot", attributes=one)
        ours.add(vectors[200:], attributes=other)
        assert ours.get([3, 203]).to_pydict() == {"kind": ["b", "b"], "tags": [["x", "3"]] * 2}
        found = ours.search(vectors[0], 2, where="kind = 'b' AND list_contains(tags, '3')")
        assert sorted(found.ids.tolist()) == [3, 203]


def test_attributes_that_differ_are_still_refused(vectors):
    ours = pcpq.build(vectors[:200], metric="dot", attributes=pandas_attributes(200))
    other = pandas_attributes(200).rename(columns={"odd": "number", "number": "odd"})
    with pytest.raises(ValueError, match="attributes differ from those of the index"):
        ours.add(vectors[200:], attributes=other)
    with pytest.raises(ValueError, match="attributes cannot be converted to a table"):
        ours.add(vectors[200:], attributes=library("pandas").Series(range(200)))


WITH_RAY = """
import os, pickle, sys
os.environ |= {"RAY_DATA_AUTOLOAD_CLOUDPICKLE_TENSOR_METADATA": "1", "RAY_USAGE_STATS_ENABLED": "0"}
import numpy as np, pyarrow as pa
import ray.data
import pcpq
from pathlib import Path
from pcpq.store.tables import read_attributes
from pcpq.store.tensors import FileEntry, checksum

class Loud:
    def __reduce__(self):
        return print, ("code ran",)

told = {"ARROW:extension:name": "ray.data.arrow_tensor", "ARROW:extension:metadata": pickle.dumps(Loud())}
schema = pa.schema([pa.field("a", pa.list_(pa.int64()), metadata=told)])
sink = pa.BufferOutputStream()
with pa.ipc.new_file(sink, schema) as writer:
    writer.write_table(pa.table({"a": [[1], [2]]}, schema=schema))
content = np.frombuffer(sink.getvalue(), np.uint8)
try:
    pa.ipc.open_file(sink.getvalue())
except Exception:
    pass
print("ours")
directory = Path(sys.argv[1])
content.tofile(directory / "attributes-0.arrow")
entry = FileEntry("attributes-0.arrow", content.nbytes, checksum(content))
try:
    read_attributes(directory, entry, 2).table
except pcpq.FormatError:
    print("refused")
tensors = ray.data.from_numpy(np.zeros((2, 3, 3))).schema().base_schema
column = pa.nulls(2, tensors.field(0).type)
try:
    pcpq.build(np.eye(2, 8), metric="dot", attributes=pa.table({"a": column}))
except ValueError as error:
    print("refused" if "'a'" in str(error) else error)
"""


def test_no_code_in_a_file_runs_though_ray_would_run_it(tmp_path):
    library("ray.data")
    found = subprocess.run(
        [sys.executable, "-c", WITH_RAY, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.stdout.splitlines() == ["code ran", "ours", "refused", "refused"], found.stderr
