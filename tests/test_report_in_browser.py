"""The report page in a browser."""

import os
import shutil

import pytest
from made_up_results import HOSTILE, ROOT, codes, contestant, hostile_results, paper, peers, save

from pcpq.experiments.report import write_report

PATIENCE = 120_000  # milliseconds: many tests may run at once


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
        *("Equal bits", "Ablation", "Operations", "Codeword and scale together"),
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
    head = shown(page, SPEED, "table").first.locator("th", has_text="queries per second")
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
    mode.select_option("one per call")
    assert column(page, SPEED, 4)[0] == "28,500"
    data.select_option("glove")
    assert mode.input_value() == "one per call"
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


@pytest.mark.repository
def test_committed_results_are_shown_without_an_error(open_page, tmp_path):
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        shutil.copy(path, tmp_path)
    page = open_page({"paper": paper()})
    for panel in (SPEED, CODES):
        section = page.locator(".panel", has=page.get_by_role("heading", name=panel, exact=True))
        for name in section.locator("select").first.locator("option").all_inner_texts():
            section.locator("select").first.select_option(name)
            assert shown(page, panel, ".point").count() > 0
