"""The report page: what it is made of, files that are malformed, text that is hostile."""

import copy
import json
import re

import pytest
from made_up_results import DELETED, HOSTILE, ROOT, codes, hostile_results, paper, peers, put, save

from pcpq.experiments.report import write_report


def test_the_page_lies_in_the_folder_unless_said_otherwise(tmp_path):
    save(tmp_path, peers_glove=peers())
    assert write_report(tmp_path) == tmp_path / "report.html"
    other = tmp_path / "other.html"
    assert write_report(tmp_path, other) == other
    assert other.read_bytes() == (tmp_path / "report.html").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.html", "peers_glove.json", "report.html"]


def test_a_folder_without_results_is_named(tmp_path):
    save(tmp_path, other={"a": 1}, list=[1, 2], runs={"runs": [1]}, word="paper", rows={"ours": [{"a": 1}]})
    with pytest.raises(ValueError, match=re.escape(str(tmp_path))):
        write_report(tmp_path)
    with pytest.raises(ValueError, match="nowhere"):
        write_report(tmp_path / "nowhere")
    assert not list(tmp_path.glob("*.html"))


def test_files_of_other_kinds_are_ignored(tmp_path):
    save(tmp_path, peers_glove=peers(), other={"a": 1})
    (tmp_path / "notes.txt").write_text("not JSON")
    page = write_report(tmp_path).read_text()
    assert "peers_glove.json" in page
    assert "other.json" not in page


@pytest.mark.parametrize(
    ("make", "path", "value", "field"),
    [
        (peers, "runs.0.contestants.pcpq.qps", DELETED, "runs[0].contestants.pcpq.qps is missing"),
        (peers, "runs.1.contestants.slow.recall", "0.9", "runs[1].contestants.slow.recall must be a number"),
        (peers, "runs.1.contestants.slow.recall", 1.5, "runs[1].contestants.slow.recall must be from 0 to 1"),
        (peers, "runs.0.contestants.pcpq.bytes_per_vector", 0, "bytes_per_vector must be above zero"),
        (peers, "runs.0.contestants.pcpq.qps", float("nan"), "qps must be a finite number"),
        (peers, "runs.0.contestants.pcpq.qps", 10**400, "qps must be a number of usual size"),
        (peers, "runs.0.contestants.pcpq.qps", True, "qps must be a number"),
        (peers, "runs.1.contestants", [], "runs[1].contestants must be an object"),
        (peers, "runs.0.mode", 3, "runs[0].mode must be a string"),
        (peers, "data", DELETED, "data is missing"),
        (codes, "ours.1.bytes", DELETED, "ours[1].bytes is missing"),
        (codes, "peers.0.recall_10_at_10", None, "peers[0].recall_10_at_10 is missing"),
        (codes, "peers", {}, "peers must be an array"),
        (paper, "methods", DELETED, "methods is missing"),
        (paper, "settings.bits", "four", "settings.bits must be a number"),
        (paper, "methods.2.recall.all", [0.5], "methods[2].recall.all must have 7 numbers, not 1"),
        (paper, "methods.0.errors.3", "x", "must be a number"),
        (paper, "probes.swept.0", 0, "probes.swept[0] must be above zero"),
        (paper, "ablation.0.step", DELETED, "ablation[0].step is missing"),
        (paper, "joint.0", "x" * 100, "joint[0] must be an object"),
    ],
)
def test_a_malformed_file_is_named_with_its_field(tmp_path, make, path, value, field):
    result = copy.deepcopy(make())
    put(result, path, value)
    save(tmp_path, broken=result, peers_whole=peers())
    (tmp_path / "report.html").write_text("as before")
    with pytest.raises(ValueError, match=r"^broken\.json: .*" + re.escape(field)) as caught:
        write_report(tmp_path)
    assert len(str(caught.value)) < 200
    assert (tmp_path / "report.html").read_text() == "as before"


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\xfa", b"[" * 100_000], ids=["cut", "binary", "deep"])
def test_a_file_that_is_not_json_is_named(tmp_path, content):
    save(tmp_path, peers_glove=peers())
    (tmp_path / "broken.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"^broken\.json: is not JSON"):
        write_report(tmp_path)


def test_nothing_is_left_of_a_page_that_cannot_be_put_in_its_place(tmp_path):
    save(tmp_path, peers_glove=peers())
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match=r"report\.html"):
        write_report(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["peers_glove.json", "report.html"]


@pytest.mark.parametrize(
    "part", ["environment", "seconds", "recall_at", "probes", "equal_bits", "joint", "operations"]
)
def test_most_parts_of_a_paper_result_may_be_missing(tmp_path, part):
    result = paper()
    del result[part]
    if part == "recall_at":
        for rows in ("methods", "equal_bits", "ablation", "joint"):
            for row in result[rows]:
                del row["recall"]
    write_report(save(tmp_path, paper=result))


def test_a_paper_result_needs_little(tmp_path):
    result = {name: paper()[name] for name in ("kind", "data", "settings")}
    write_report(save(tmp_path, paper=result | {"methods": [{"method": "PQ", "published": None}]}))


def test_the_page_has_measured_and_published_numbers_and_where_they_come_from(tmp_path):
    page = write_report(save(tmp_path, paper=paper(), peers=peers(), quantizers=codes())).read_text()
    for said in ("0.2861", "0.4482", "0.8253", "19,000", "published plateau 0.947", "not reached (0.98)"):
        assert said in page
    for said in ("python made_up.py", "Abacus, avx2, 2 CPU, 1 thread", "2 threads", "2026-01-02", "paper.json"):
        assert said in page


def test_the_frontier_is_the_libraries_that_no_other_beats(tmp_path):
    page = write_report(save(tmp_path, peers=peers())).read_text()
    rows = re.findall(r"<tr><td>(pcpq|slow|small)</td>.*?<td>(yes|no)</td>", page)
    assert set(rows) == {("pcpq", "yes"), ("small", "yes"), ("slow", "no")}


def test_results_on_the_same_data_are_told_apart_by_their_file(tmp_path):
    page = write_report(save(tmp_path, one=peers(), two=peers(), three=peers("npm"))).read_text()
    for label in ("glove (one), all at once", "glove (two), one per call", "npm, all at once"):
        assert f"<h3>{label}</h3>" in page


def test_a_quick_try_says_so(tmp_path):
    assert "A quick trial" not in write_report(save(tmp_path, peers=peers())).read_text()
    assert "A quick trial" in write_report(save(tmp_path, peers=peers() | {"try": True})).read_text()


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path):
    page = write_report(save(tmp_path, paper=paper(), peers=peers(), quantizers=codes())).read_text()
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:" in page
    addresses = set(re.findall(r"\w+://[^\s\"']*", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not re.search(r"@import|url\(|\bsrc=", page)


def test_text_from_results_is_escaped(tmp_path):
    page = write_report(save(tmp_path, **hostile_results())).read_text()
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    assert "<b>" not in page
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]
    assert not set(data) & set("<>&")
    assert HOSTILE in json.dumps(json.loads(data), ensure_ascii=False).replace('\\"', '"')


def test_text_that_is_not_unicode_does_no_harm(tmp_path):
    write_report(save(tmp_path, peers=peers("\ud800"))).read_text("utf-8")


@pytest.mark.repository
def test_committed_results_make_a_page(tmp_path):
    page = write_report(ROOT / "benchmarks" / "results", tmp_path / "page.html").read_text()
    for path in (ROOT / "benchmarks" / "results").glob("peers_*.json"):
        assert path.name in page
