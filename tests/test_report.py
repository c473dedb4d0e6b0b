"""The report page: what it is made of, files that are malformed, text that is hostile."""

import copy
import json
import re

import pytest
from made_up_results import DELETED, HOSTILE, ROOT, codes, curves, hostile_results, paper, peers, put, save

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
        (
            curves,
            "curves.0.contestants.scann.3.qps",
            0,
            "curves[0].contestants.scann[3].qps must be above zero",
        ),
        (curves, "curves.1.contestants.pcpq.0.qps_interval", [1], "pcpq[0].qps_interval must be two numbers"),
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


def titles(page):
    """The titles of all views."""
    return re.findall("<h3>(.*?)</h3>", page)


def test_results_have_the_titles_of_their_data(tmp_path):
    large = peers("minilm")
    large["data"] |= {"n": 40_000, "d": 384}
    other = peers("minutes")
    other["data"] |= {"n": 1_234_567, "metric": "dot"}
    page = write_report(save(tmp_path, one=large, two=other, three=paper("lastfm"), four=codes())).read_text()
    assert "MiniLM sentence vectors, 40k × 384, cosine, all at once" in titles(page)  # noqa: RUF001
    assert "minutes, 1.23M × 20, dot, one per call" in titles(page)  # noqa: RUF001
    assert "Last.fm tracks, 1,000 × 20, 4 bits" in titles(page)  # noqa: RUF001
    assert "GloVe word vectors, 1,000 × 20" in titles(page)  # noqa: RUF001


def test_results_on_the_same_data_are_told_apart_by_peers_then_date_then_file(tmp_path):
    other, older = peers(), peers()
    for run in other["runs"]:
        del run["contestants"]["small"]
    older["environment"] = older["environment"] | {"date": "2025-12-31"}
    results = {"one": peers(), "two": peers(), "older": older, "other": other, "npm": peers("npm")}
    page = write_report(save(tmp_path, **results)).read_text()
    found = [title.partition("cosine")[2] for title in titles(page) if title.endswith("all at once")]
    assert sorted(found) == [
        ", all at once",
        ", with slow, all at once",
        ", with slow, small, 2025-12-31, all at once",
        ", with slow, small, 2026-01-02, one, all at once",
        ", with slow, small, 2026-01-02, two, all at once",
    ]


def text_of(page, start, end):
    """The text between two tags of a page."""
    part = page[page.index(start) : page.index(end, page.index(start))]
    return " ".join(re.sub("<[^>]*>", " ", part).split())


def test_large_numbers_are_computed_from_the_results(tmp_path):
    one, other = peers("glove"), peers("npm")
    for result, factor in ((one, 3.0), (other, 1.25)):
        result["pcpq_over_peer"] = [
            {"mode": mode, "target": 0.95, "ours": "pcpq", "rival": "scann", "recall": 0.95}
            | {"rival_recall": 0.95, "ratio": factor}
            for mode in ("batch", "single")
        ]
        for run in result["runs"]:
            run["contestants"]["scann"] = run["contestants"].pop("slow")
    page = write_report(save(tmp_path, one=one, other=other, paper=paper())).read_text()
    said = text_of(page, '<p class="sentence">', "</p>")
    assert said == "At equal recall, pcpq is faster than ScaNN in all 4 comparisons on 2 data sets."
    numbers = re.findall("<strong>(.*?)</strong>", text_of_larges(page))
    assert numbers[:2] == ["1.2\N{EN DASH}3.0\N{MULTIPLICATION SIGN}", "33 %"]
    larges = text_of(page, '<ul class="larges">', "</ul>")
    assert "The smallest peer is small: 56 % of the bytes of pcpq" in larges
    for file in ("one.json", "other.json", "paper.json"):
        assert file in larges


def text_of_larges(page):
    """The markup of the large numbers."""
    return page[page.index('<ul class="larges">') : page.index("</ul>", page.index('<ul class="larges">'))]


def test_the_error_of_scales_is_compared_with_that_of_equal_bits(tmp_path):
    result = paper()
    for row, errors in zip(result["methods"], ([0.4, 0.41] * 50, [0.3, 0.31] * 50), strict=False):
        row["errors"] = errors
    plain, scaled = dict(result["equal_bits"][0]), dict(result["equal_bits"][0])
    plain |= {"codebooks": "per_list", "relative_error": 0.1, "code_bits": 175}
    scaled |= {"method": "QPCPQ", "codebooks": "per_list", "relative_error": 0.2, "code_bits": 175}
    result["equal_bits"] = [plain, scaled]
    page = write_report(save(tmp_path, paper=result)).read_text()
    larges = text_of(page, '<ul class="larges">', "</ul>")
    assert larges.startswith("25 % less error")
    assert "PQ with more codewords or sections errs less in 1 of 1" in larges
    assert "No difference" not in larges
    result["methods"][1]["errors"] = [0.1, 0.7] * 50
    assert "No difference beyond the interval" in write_report(save(tmp_path, paper=result)).read_text()


@pytest.mark.parametrize(
    ("speed", "spread", "said", "verdict"),
    [
        (2.0, 0.01, "pcpq is faster than ScaNN in all 10 comparisons", "pcpq"),
        (0.5, 0.01, "in 0 of 10 comparisons on 1 data set; ScaNN is faster in 10.", "ScaNN"),
        (1.02, 0.05, "in 0 of 10 comparisons on 1 data set; 10 show no difference.", "no difference"),
    ],
    ids=["faster", "slower", "within the interval"],
)
def test_a_difference_within_its_interval_is_none_and_faster_peers_are_named(
    tmp_path, speed, spread, said, verdict
):
    page = write_report(save(tmp_path, curves=curves(speed=speed, spread=spread))).read_text()
    assert said in text_of(page, '<p class="sentence">', "</p>")
    table = page[page.index("interpolated between points") :]
    rows = re.findall(r"<tr>(<td>pcpq</td><td>ScaNN</td>.*?)</tr>", table)[:5]
    assert [row.endswith(f"<td>{verdict}</td>") for row in rows] == [True] * 5
    assert ("Faster than pcpq: ScaNN at recall 0.8 (2.00 times)" in page) == (verdict == "ScaNN")
    assert ("No difference beyond the intervals: ScaNN" in page) == (verdict == "no difference")
    larges = text_of(page, '<ul class="larges">', "</ul>")
    assert ("Within the interval of the rounds, so no difference" in larges) == (verdict == "no difference")


def test_curves_replace_points_of_the_same_data_and_keep_their_ratios(tmp_path):
    page = write_report(save(tmp_path, curves=curves(), points=peers(), npm=peers("npm"))).read_text()
    shown = [title.partition(",")[0] for title in titles(page)]
    assert shown == ["GloVe word vectors"] * 2 + ["npm packages"] * 2
    assert "At equal recall, measured separately on 2026-01-02 (points)" in page
    assert page.count("points.json") >= 2  # as a source, and in the list of files
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    series = data["panels"][0]["views"][0]["charts"][0]["series"]
    assert {one["name"]: len(one["points"]) for one in series} == {"pcpq": 14, "ScaNN": 14}


def test_a_method_looks_the_same_whatever_else_is_on_the_page(tmp_path):
    def styles(**results):
        page = write_report(save(tmp_path, **results)).read_text()
        looks = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["looks"]
        return {look["name"]: look["style"] for look in looks}

    few = styles(curves=curves())
    many = styles(paper=paper(), quantizers=codes(), peers=peers("npm"))
    assert few == {"pcpq": 0, "ScaNN": 3}
    assert few.items() <= many.items()
    assert len(set(many.values())) == len(many)
    assert {"PQ", "QPCPQ", "Faiss", "slow"} <= set(many)


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
    for kind in ("peers", "curves", "paper"):
        for path in (ROOT / "benchmarks" / "results").glob(f"{kind}_*.json"):
            assert path.name in page
    assert text_of_larges(page).count("<strong>") == 3
    dated = re.compile(r"Made [\d-]+ from")
    committed = (ROOT / "docs" / "report.html").read_text()
    assert dated.sub("", page) == dated.sub("", committed), "run python tools/report.py"
