"""The page of results: what it is made from, and what it does in a real browser."""

import copy
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from pcpq.experiments.report import write_report

ROOT = Path(__file__).parent.parent
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<b>"
PATIENCE = 120_000  # milliseconds: many tests may run at once
AT = (1, 2, 5, 10, 20, 50, 100)
ENVIRONMENT = {"command": "python made_up.py", "date": "2026-01-02", "cpu": "Abacus", "cpus": 2, "simd": "avx2"}


def contestant(recall, qps, size):
    return {
        "kind": {"lists": "euclidean", "quantizer": {"method": "QPCPQ"}},
        "lists": 100,
        "width": 7,
        "rerank": None,
        "recall": recall,
        "qps": qps,
        "bytes_a_vector": size,
        "code_bytes": None,
        "build_seconds": 1.5,
    }


def peers(name="glove", speed=1.0):
    """A result of the peers benchmark: pcpq beats `slow` in everything, `small` takes the fewest bytes."""
    runs = []
    for mode, factor in (("batch", 2.0), ("single", 1.0)):
        for target, drop in ((0.9, 1.0), (0.95, 0.6), (0.98, 0.3)):
            rate = 1000 * speed * factor * drop
            runs.append(
                {
                    "mode": mode,
                    "target": target,
                    "contestants": {
                        "pcpq": contestant(target + 0.001, 9.5 * rate, 160),
                        "slow": contestant(target + 0.001, rate, 480),
                        "small": contestant(target, 2 * rate, 90),
                    },
                }
            )
    ratio = {"mode": "batch", "target": 0.9, "ours": "pcpq", "rival": "slow", "recall": 0.901}
    return {
        "environment": ENVIRONMENT,
        "data": {"name": name, "metric": "cosine", "n": 1000, "d": 20},
        "threads": 1,
        "try": False,
        "absent": {"lazy": {"not reached": [0.98], "best recall": 0.7}},
        "runs": runs,
        "pcpq_over_peer": [{**ratio, "rival_recall": 0.9, "ratio": 9.5}],
    }


def codes(name="glove"):
    """A result of the quantizer benchmark."""
    sizes = [(29.0, 0.68), (54.0, 0.9), (100.0, 0.85), (9.0, 0.2)]
    return {
        "data": {"name": name, "n": 1000, "d": 20, "lists": 10, "queries": 50},
        "environment": ENVIRONMENT,
        "ours": [
            {"method": f"QPCPQ(section_size={size:.0f})", "lists": "euclidean", "query_sample": False}
            | {"bytes": size, "recall_10_at_10": recall, "fit_seconds": None if size == 29 else size}
            for size, recall in sizes
        ],
        "peers": [{"method": "Faiss IVF PQ25x8", "lists": "euclidean", "bytes": 25.0, "recall_10_at_10": 0.6}],
    }


def measures(quality):
    recall = [round(1 - (1 - quality) / at, 4) for at in AT]
    return {
        "relative_error": round(0.3 * (1 - quality), 4),
        "reconstruction_error": 0.1,
        "residual_error": 0.2,
        "code_bits": 100,
        "codebook_bits": 50.5,
        "build_seconds": 1.0,
        "query_microseconds": 12.5,
        "recall": {"all": recall, "probed": recall, "reranked": recall},
    }


def paper(name="glove", bits=4):
    """A result of `pcpq paper`."""
    generator = np.random.default_rng(0)
    methods = []
    for i, method in enumerate(("PQ", "QPCPQ", "PCPQ", "APQ", "QAPCPQ", "APCPQ")):
        methods.append(
            {
                "method": method,
                "paper_name": f"{method} of the paper",
                **measures(0.5 + 0.05 * i),
                "errors": np.sort(np.abs(generator.normal(size=100))).tolist(),
                "recall_at_10_by_probes": [0.5, 0.6, 0.7, 0.8],
                "published": {"relative_error": 0.2861, "recall_1_at_1": 0.4482, "recall_1_at_10": 0.8253},
            }
        )
    return {
        "kind": "paper",
        "environment": ENVIRONMENT,
        "data": {"name": name, "n": 1000, "d": 20, "unit_norm": True, "queries": 100, "note": "Made up."},
        "settings": {"bits": bits, "centers": 16, "probes": 2, "threads": 2},
        "seconds": {"lists": 0.5},
        "recall_at": list(AT),
        "methods": methods,
        "probes": {
            "swept": [1, 2, 4, 8],
            "ceiling": [0.6, 0.7, 0.8, 1.0],
            "chosen": 2,
            "published_plateau": 0.947,
        },
        "equal_bits": [{"label": "128 centers", "method": "PQ", "codebooks": "shared", **measures(0.6)}],
        "ablation": [
            {"family": "PQ", "step": step, "codebooks": "per_list", **measures(0.6 + 0.1 * i)}
            for i, step in enumerate(("the paper", "+ gain", "+ bias"))
        ],
        "operations": [
            {"label": "PQ, 16 centers", "vectors": 1000, "centers": "16^25", "formula": 51600, "counted": 51600}
        ],
        "joint": [{"label": "APCPQ, together", **measures(0.7), "training_loss": 123.0}],
    }


def save(folder, **results):
    """The folder with these results in it, one file each."""
    for name, result in results.items():
        (folder / f"{name}.json").write_text(json.dumps(result))
    return folder


def put(result, path, value):
    """Set a value deep in a result; "runs.0.target" is the way there."""
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in way:
        result = result[step]
    if value is DELETED:
        del result[last]
    else:
        result[last] = value


DELETED = object()


# What is read and written


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
        (peers, "runs.0.contestants.pcpq.bytes_a_vector", 0, "bytes_a_vector must be above zero"),
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


def test_the_frontier_is_who_nobody_beats(tmp_path):
    page = write_report(save(tmp_path, peers=peers())).read_text()
    rows = re.findall(r"<tr><td>(pcpq|slow|small)</td>.*?<td>(yes|no)</td>", page)
    assert set(rows) == {("pcpq", "yes"), ("small", "yes"), ("slow", "no")}


def test_results_on_the_same_data_are_told_apart_by_their_file(tmp_path):
    page = write_report(save(tmp_path, one=peers(), two=peers(), three=peers("npm"))).read_text()
    for label in ("glove (one), all at once", "glove (two), one a call", "npm, all at once"):
        assert f"<h3>{label}</h3>" in page


def test_a_quick_try_says_so(tmp_path):
    assert "A quick try" not in write_report(save(tmp_path, peers=peers())).read_text()
    assert "A quick try" in write_report(save(tmp_path, peers=peers() | {"try": True})).read_text()


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path):
    page = write_report(save(tmp_path, paper=paper(), peers=peers(), quantizers=codes())).read_text()
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:" in page
    addresses = set(re.findall(r"\w+://[^\s\"']*", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not re.search(r"@import|url\(|\bsrc=", page)


def hostile(value, key=""):
    """A result in which every text that is free, and every name of a contestant, is hostile."""
    if isinstance(value, dict):
        free = key in {"contestants", "absent", "kind", "settings", "environment", "seconds"}
        return {
            name + (HOSTILE if free and name != "bits" else ""): hostile(inner, name)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [hostile(inner) for inner in value]
    return value + HOSTILE if isinstance(value, str) and (key, value) != ("kind", "paper") else value


def hostile_results():
    """All three kinds."""
    one = paper()
    del one["settings"]["threads"]
    return {"paper": hostile(one), "peers": hostile(peers()), "quantizers": hostile(codes())}


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


def test_committed_results_make_a_page(tmp_path):
    page = write_report(ROOT / "benchmarks" / "results", tmp_path / "page.html").read_text()
    for path in (ROOT / "benchmarks" / "results").glob("peers_*.json"):
        assert path.name in page


# What the page does


@pytest.fixture(scope="module")
def browser():
    """Chromium; without it these tests are skipped, unless PCPQ_NEED_BROWSER is set."""
    absent = pytest.fail if os.environ.get("PCPQ_NEED_BROWSER") else pytest.skip
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        absent("there is no chromium")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        chromium = playwright.chromium.launch(executable_path=path, args=arguments, timeout=PATIENCE)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Show results; afterwards there must have been no error, and no request but for the page."""
    contexts, wrong, requests, opened = [], [], [], []

    def show(results=None, width=1280, **options):
        results = results or {
            "paper": paper(),
            "peers": peers(),
            "peers_npm": peers("npm", 3),
            "quantizers": codes(),
        }
        path = write_report(save(tmp_path, **results))
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        opened.append(path.as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert wrong == []
    assert requests == opened


def shown(page, panel, what):
    """Elements in the view of a panel that is shown; panels are named by their titles."""
    section = page.locator(".panel", has=page.get_by_role("heading", name=panel, exact=True))
    return section.locator(f".view:not([hidden]) {what}")


SPEED, CODES, METHODS = "Speed, recall and bytes", "Codes by themselves", "The paper's experiments"


def test_every_section_is_drawn(open_page):
    page = open_page()
    titles = page.locator("h2").all_text_contents()
    assert titles == [
        *(SPEED, CODES, METHODS),
        *("Equal bits", "Ablation", "Operations", "Center and scale together"),
    ]
    for panel, charts in ((SPEED, 3), (CODES, 1), (METHODS, 5), ("Equal bits", 2), ("Ablation", 2)):
        assert shown(page, panel, ".plot svg").count() == charts
        assert shown(page, panel, ".point").count() > 0
    for panel in titles:
        assert shown(page, panel, "tbody tr").count() > 0
        assert "Abacus" in shown(page, panel, ".sources").inner_text()
    assert "NaN" not in page.locator("main").inner_html()


def test_a_legend_button_hides_a_method_and_shows_it_again(open_page):
    page = open_page()
    points = shown(page, SPEED, '.series[data-name="slow"] .point')
    assert points.count() == 9  # three recalls in three charts
    button = shown(page, SPEED, ".legend button").get_by_text("slow").first
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert points.count() == 0
    assert shown(page, SPEED, '.series[data-name="pcpq"] .point').count() == 9
    button.press("Enter")
    assert points.count() == 9


def test_beaten_codes_are_shown_on_demand(open_page):
    page = open_page()
    points = shown(page, CODES, '.series[data-name="pcpq QPCPQ"] .point')
    assert points.count() == 3
    shown(page, CODES, "button.all").click()
    assert points.count() == 4


def column(page, panel, number):
    """What the first table of a panel has in a column."""
    return shown(page, panel, "table").first.locator(f"tbody tr td:nth-child({number})").all_inner_texts()


def test_a_header_sorts_numbers_both_ways(open_page):
    page = open_page()
    head = shown(page, SPEED, "table").first.locator("th", has_text="queries a second")
    assert head.get_attribute("aria-sort") == "none"
    numbers = [19_000, 2_000, 4_000, 11_400, 1_200, 2_400, 5_700, 600, 1_200]
    for order in ("ascending", "descending"):
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == order
        found = [int(text.replace(",", "")) for text in column(page, SPEED, 4)]
        assert found == sorted(numbers, reverse=order == "descending")
    other = shown(page, SPEED, "table").first.locator("th", has_text="method")
    other.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "none"
    assert column(page, SPEED, 1) == ["pcpq"] * 3 + ["slow"] * 3 + ["small"] * 3


def test_what_was_not_measured_stays_last_in_a_sorted_table(open_page):
    page = open_page({"quantizers": codes()})
    head = shown(
        page,
        CODES,
        "th",
    ).filter(has_text="fit, s")
    for _ in range(2):
        head.get_by_role("button").click()
        assert column(page, CODES, 7)[-2:] == ["\N{EN DASH}"] * 2


def test_a_tooltip_appears_under_the_pointer(open_page):
    page = open_page()
    tip = page.locator("#tip")
    assert tip.is_hidden()
    shown(page, SPEED, '.series[data-name="pcpq"] .point').first.hover()
    tip.wait_for(state="visible")
    for said in ("pcpq", "0.9010", "19,000", "160.0", "lists 100, width 7", "quantizer (method QPCPQ)"):
        assert said in tip.inner_text()
    page.mouse.move(2, 2)
    tip.wait_for(state="hidden")


def test_a_tooltip_follows_the_keyboard(open_page):
    page = open_page()
    tip = page.locator("#tip")
    reached = shown(page, SPEED, '.point[tabindex="0"]')
    assert reached.count() == 3  # one in each chart
    reached.first.focus()
    tip.wait_for(state="visible")
    assert "0.9010" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert "0.9510" in tip.inner_text()
    page.keyboard.press("ArrowDown")
    assert "slow" in tip.inner_text()
    page.keyboard.press("ArrowUp")
    assert "pcpq" in tip.inner_text()
    page.keyboard.press("End")
    assert "small" in tip.inner_text()
    page.keyboard.press("Escape")
    tip.wait_for(state="hidden")


def test_a_tooltip_appears_under_a_finger(open_page):
    page = open_page(has_touch=True)
    shown(page, SPEED, '.series[data-name="small"] .point').first.tap()
    page.locator("#tip").wait_for(state="visible")
    assert "small" in page.locator("#tip").inner_text()


def test_selectors_change_charts_and_tables(open_page):
    page = open_page()
    data, mode = (page.locator("#panel-0 select").nth(i) for i in (0, 1))
    first = shown(page, SPEED, ".point").first
    before = first.get_attribute("aria-label")
    data.select_option("npm")
    assert "57,000" in first.get_attribute("aria-label") != before
    assert column(page, SPEED, 4)[0] == "57,000"
    mode.select_option("one a call")
    assert column(page, SPEED, 4)[0] == "28,500"
    data.select_option("glove")
    assert mode.input_value() == "one a call"
    assert column(page, SPEED, 4)[0] == "9,500"


def test_sections_of_the_paper_show_the_same_result(open_page):
    lesser = {name: paper("lastfm", 8)[name] for name in ("kind", "data", "settings", "recall_at", "methods")}
    page = open_page({"paper": paper(), "lesser": lesser})
    ablation = page.locator(".panel", has=page.get_by_role("heading", name="Ablation", exact=True))
    ablation.get_by_label("Data").select_option("lastfm, 8 bits")
    assert shown(page, METHODS, "h3").inner_text() == "lastfm, 8 bits"
    assert ablation.get_by_text("This result has nothing here.").is_visible()


def test_the_published_plateau_is_drawn(open_page):
    page = open_page()
    assert shown(page, METHODS, "text.over").all_text_contents() == ["published plateau 0.947", "used above: 2"]


def background(page):
    """The colour behind everything."""
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_and_light_follow_the_system_and_a_button(open_page):
    light, dark = open_page(color_scheme="light"), open_page(color_scheme="dark")
    white, black = background(light), background(dark)
    assert white == "rgb(255, 255, 255)"
    assert black != white
    for page, other, name in ((light, black, "Light"), (dark, white, "Dark")):
        page.locator("#theme").click()
        assert background(page) == other
        assert page.locator("#theme").inner_text() == name


@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_never_scrolls_sideways(open_page, width):
    page = open_page(width=width)
    fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert page.evaluate(fits)
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_function("[...document.querySelectorAll('.plot svg')].every((svg) => svg.clientWidth <= 360)")
    assert page.evaluate(fits)
    shown(page, SPEED, ".point").last.focus()
    page.locator("#tip").wait_for(state="visible")
    assert page.evaluate(fits)


def test_a_phone_is_taken_for_as_wide_as_it_is(open_page):
    page = open_page(width=360, is_mobile=True)
    assert page.evaluate("innerWidth") == 360


def test_hostile_text_is_only_shown(open_page):
    page = open_page(hostile_results())
    assert page.locator("img").count() == 0
    assert page.locator("b").count() == 0
    name = f"pcpq{HOSTILE}"
    assert name in shown(page, SPEED, ".legend button").all_inner_texts()
    assert name in column(page, SPEED, 1)
    assert HOSTILE in page.locator("select").first.input_value()
    shown(page, SPEED, ".point").first.focus()
    assert name in page.locator("#tip").inner_text()
    shown(page, SPEED, ".legend button").first.click()
    assert shown(page, SPEED, ".point").count() == 18


def test_odd_numbers_are_drawn(open_page):
    """One point, all points the same, a recall of 0 and of 1, sizes far apart, and very large ones."""
    one = peers()
    one["runs"] = one["runs"][:1]
    one["runs"][0]["contestants"] = {
        "alone": contestant(1.0, 1e16, 1e16),
        "same": contestant(1.0, 1e16, 1e16),
    }
    far = peers("far")
    far["runs"][0]["contestants"] = {"low": contestant(0, 1e-9, 1e-3), "high": contestant(1, 1e15, 1e12)}
    large = paper()
    large["ablation"][0]["relative_error"] = 1e16
    large["ablation"][1]["relative_error"] = large["ablation"][2]["relative_error"] = 1e16 + 2
    page = open_page({"one": one, "far": far, "large": large})
    assert shown(page, "Ablation", ".point").count() == 6
    for data in ("far", "glove"):
        page.locator("select").first.select_option(data)
        assert shown(page, SPEED, ".point").count() > 0
        assert "NaN" not in shown(page, SPEED, ".charts").inner_html()


def test_committed_results_are_shown_without_an_error(open_page, tmp_path):
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        shutil.copy(path, tmp_path)
    page = open_page({"paper": paper()})
    for panel in (SPEED, CODES):
        section = page.locator(".panel", has=page.get_by_role("heading", name=panel, exact=True))
        for name in section.locator("select").first.locator("option").all_inner_texts():
            section.locator("select").first.select_option(name)
            assert shown(page, panel, ".point").count() > 0
