"""pcpq search --select: attributes with results."""

import csv
import io
import json

import numpy as np
import pytest
from command_line import one_line

import pcpq

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def described(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("described")
    attributes = {"title": [f"page {i}" for i in range(500)], "year": np.arange(500)}
    pcpq.build(rows[:500], metric="dot", attributes=attributes).save(folder / "index")
    np.save(folder / "queries.npy", rows[:3])
    return folder


def test_selected_attributes_are_shown_as_columns(described, run):
    search = ["search", described / "index", described / "queries.npy", "-k", 2, "--select", "year, title"]
    ids = pcpq.open(described / "index").search(np.load(described / "queries.npy"), 2).ids
    _, out, _ = run(*search)
    lines = out.splitlines()
    assert lines[0].split() == ["query", "rank", "id", "score", "year", "title"]
    assert lines[1].split()[4:] == [str(ids[0, 0]), "page", str(ids[0, 0])]
    _, out, _ = run(*search, "--format", "csv")
    assert [row["title"] for row in csv.DictReader(io.StringIO(out))] == [f"page {i}" for i in ids.ravel()]
    _, out, _ = run(*search, "--json")
    for line, right in zip(out.splitlines(), ids.tolist(), strict=True):
        assert json.loads(line)["attributes"] == [{"year": i, "title": f"page {i}"} for i in right]


def test_all_attributes_of_the_neighbours_of_an_id(described, run):
    _, out, _ = run("search", described / "index", "--id", 4, "-k", 2, "--select", "*", "--json")
    found = json.loads(out)
    assert found["attributes"] == [{"title": f"page {i}", "year": i} for i in found["ids"]]


def test_columns_that_cannot_be_selected(described, built, run):
    search = ["search", described / "index", described / "queries.npy"]
    one_line(run(*search, "--select", "nope"), "the columns are title, year")
    one_line(run(*search, "--select", "year", "--ray", "local"), "--select is for an index that is opened here")
    one_line(run("search", built / "numbers.pcpq", "--id", 4, "--select", "year"), "no attributes")
