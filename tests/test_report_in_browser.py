"""The report page in a browser."""

import shutil

import pytest
from chromium import PATIENCE, expect, launched
from made_up_results import HOSTILE, ROOT, codes, contestant, curves, hostile_results, paper, peers, save

from pcpq.experiments.report import write_report


@pytest.fixture(scope="module")
def browser():
    with launched() as chromium:
        yield chromium


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
ALL = "Results of all methods"


def legend_button(page, name):
    """The button of a method in the legend."""
    return page.locator("#legend").get_by_role("button", name=name, exact=True)


def test_every_section_is_drawn(open_page):
    page = open_page()
    titles = page.locator("h2").all_text_contents()
    assert titles == [
        *(SPEED, CODES, METHODS),
        *("Equal bits", "Ablation", "Operations", "Codeword and scale together"),
    ]
    for panel, charts in ((SPEED, 2), (CODES, 1), (METHODS, 5), ("Equal bits", 2)):
        assert shown(page, panel, ".plot svg").count() == charts
        assert shown(page, panel, ".point").count() > 0
    assert shown(page, "Ablation", ".bars").count() == 2
    assert shown(page, "Ablation", ".bars li").count() == 6
    for panel in titles:
        assert shown(page, panel, "tbody tr").count() > 0
        assert "Abacus" in shown(page, panel, ".sources").inner_text()
    assert "NaN" not in page.locator("main").inner_html()


def test_a_legend_button_hides_a_method_and_shows_it_again(open_page):
    page = open_page()
    points = shown(page, SPEED, '.series[data-name="slow"] .point')
    assert points.count() == 4  # three recalls in the first chart, one in the second
    button = legend_button(page, "slow")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert points.count() == 0
    assert shown(page, SPEED, '.series[data-name="pcpq"] .point').count() == 4
    button.press("Enter")
    assert points.count() == 4


def test_the_legend_holds_for_the_whole_page_and_stays_in_view(open_page):
    page = open_page()
    counted = [
        (panel, shown(page, panel, f'.series[data-name^="{start}PQ"] .point'))
        for panel, start in ((CODES, "pcpq Q"), (METHODS, ""), ("Equal bits", ""))
    ]
    bars = shown(page, "Ablation", '.bar-group[data-look="PQ"]')
    assert bars.first.is_visible()
    page.locator("h2").last.scroll_into_view_if_needed()
    assert legend_button(page, "PQ").is_visible()
    assert page.locator("#legend").bounding_box()["y"] == 0
    legend_button(page, "PQ").click()
    assert bars.first.is_hidden()
    assert [points.count() for panel, points in counted if panel != CODES] == [0, 0]
    assert shown(page, METHODS, ".point").count() > 0


def test_a_method_has_one_color_and_shape_in_all_charts(open_page):
    page = open_page({"curves": curves(), "peers": peers("npm"), "quantizers": codes(), "paper": paper()})
    looks = page.evaluate(
        """() => {
          const look = (path) => getComputedStyle(path).stroke + path.getAttribute("d");
          const found = {};
          for (const button of document.querySelectorAll("#legend button"))
            found[button.dataset.look] = new Set([look(button.querySelector("path"))]);
          for (const point of document.querySelectorAll(".point"))
            found[point.series.look || point.series.name].add(look(point.querySelector("path")));
          return Object.entries(found).map(([name, some]) => [name, [...some]]);
        }"""
    )
    assert {"pcpq", "ScaNN", "Faiss", "PQ", "QPCPQ"} <= {name for name, _ in looks}
    assert [len(some) for _, some in looks] == [1] * len(looks)
    assert len({some[0] for _, some in looks}) == len(looks)


def test_a_curve_has_all_its_points_its_intervals_and_its_name(open_page):
    page = open_page({"curves": curves(speed=2.0)})
    main = shown(page, SPEED, ".chart.main")
    assert main.locator('.series[data-name="ScaNN"] .point').count() == 14
    assert main.locator('.series[data-name="ScaNN"] .interval').count() == 14
    assert main.locator("text.end").all_text_contents() == ["pcpq", "ScaNN"]
    main.locator('.series[data-name="pcpq"] .point').first.focus()
    assert "95 % interval" in page.locator("#tip").inner_text()


def test_beaten_codes_are_shown_on_demand(open_page):
    page = open_page()
    points = shown(page, CODES, '.series[data-name="pcpq QPCPQ"] .point')
    assert points.count() == 3
    buttons = page.get_by_role("button", name="Show beaten points too")
    assert buttons.count() == 1  # other sections have none that are beaten
    buttons.click()
    assert points.count() == 4


def table(page, panel, caption):
    """The table of a panel with this caption."""
    return shown(page, panel, f'table[aria-label="{caption}"]')


def column(page, panel, number, caption=ALL):
    """What a table of a panel has in a column."""
    return table(page, panel, caption).locator(f"tbody tr td:nth-child({number})").all_text_contents()


def test_a_header_sorts_numbers_both_ways(open_page):
    page = open_page()
    head = table(page, SPEED, ALL).locator("th", has_text="queries per second")
    assert head.get_attribute("aria-sort") == "none"
    numbers = [19_000, 2_000, 4_000, 11_400, 1_200, 2_400, 5_700, 600, 1_200]
    for order in ("ascending", "descending"):
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == order
        found = [int(text.replace(",", "")) for text in column(page, SPEED, 4)]
        assert found == sorted(numbers, reverse=order == "descending")
    other = table(page, SPEED, ALL).locator("th", has_text="method")
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
        assert column(page, CODES, 7, "Every code")[-2:] == ["\N{EN DASH}"] * 2


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
    assert reached.count() == 2  # one in each chart
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
    glove, npm = (f"{name}, 1,000 × 20, cosine" for name in ("GloVe word vectors", "npm packages"))  # noqa: RUF001
    data.select_option(npm)
    assert "57,000" in first.get_attribute("aria-label") != before
    assert column(page, SPEED, 4)[0] == "57,000"
    mode.select_option("one per call")
    assert column(page, SPEED, 4)[0] == "28,500"
    data.select_option(glove)
    assert mode.input_value() == "one per call"
    assert column(page, SPEED, 4)[0] == "9,500"


def test_sections_of_the_paper_show_the_same_result(open_page):
    lesser = {name: paper("lastfm", 8)[name] for name in ("kind", "data", "settings", "recall_at", "methods")}
    page = open_page({"paper": paper(), "lesser": lesser})
    ablation = page.locator(".panel", has=page.get_by_role("heading", name="Ablation", exact=True))
    title = "Last.fm tracks, 1,000 × 20, 8 bits"  # noqa: RUF001
    ablation.get_by_label("Data").select_option(title)
    assert shown(page, METHODS, "h3").inner_text() == title
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


CONTRASTS = """() => {
  const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const luminance = (color) => {
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map((value) => channel(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ratio = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((one, other) => one - other);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (color !== "rgba(0, 0, 0, 0)") return color;
    }
  };
  const texts = [...document.querySelectorAll("body *")].filter((node) =>
    node.checkVisibility() && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  const of = (node) => getComputedStyle(node)[node instanceof SVGElement ? "fill" : "color"];
  const marks = [...document.querySelectorAll("#legend path, .track .fill")];
  const stroke = (node) => getComputedStyle(node)[node instanceof SVGElement ? "stroke" : "borderTopColor"];
  return [
    Math.min(...texts.map((node) => ratio(of(node), behind(node)))),
    Math.min(...marks.map((node) => ratio(stroke(node), behind(node.parentElement)))),
  ];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out_from_what_is_behind_them(open_page, scheme):
    results = {"curves": curves(), "peers": peers("npm"), "quantizers": codes(), "paper": paper()}
    page = open_page(results, color_scheme=scheme)
    legend_button(page, "pcpq").click()  # the text of a hidden method must be read too
    text, marks = page.evaluate(CONTRASTS)
    assert text >= 4.5  # WCAG 2, level AA
    assert marks >= 3


def frame_of(page, caption):
    """The frame around the table with this caption."""
    return shown(page, SPEED, ".frame").filter(has=page.locator(f'table[aria-label="{caption}"]'))


def test_a_table_shows_on_which_side_it_goes_on_and_scrolls_by_keyboard(open_page):
    page = open_page(width=360)
    frame = frame_of(page, ALL)
    box = frame.locator(".box")
    sides = "(frame) => ['left', 'right'].filter((side) => frame.classList.contains(side))"
    assert frame.evaluate(sides) == ["right"]
    box.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("(frame) => frame.classList.contains('left')", arg=frame.element_handle())
    assert frame.evaluate(sides) == ["left", "right"]
    box.evaluate("(box) => box.scrollTo(box.scrollWidth, 0)")
    page.wait_for_function("(frame) => !frame.classList.contains('right')", arg=frame.element_handle())


def test_a_table_that_fits_is_no_stop_of_the_keyboard(open_page):
    page = open_page()
    assert frame_of(page, "Left out").locator(".box").get_attribute("tabindex") is None


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
    assert name in page.locator("#legend button").all_inner_texts()
    assert name in column(page, SPEED, 1)
    assert HOSTILE in page.locator("select").first.input_value()
    shown(page, SPEED, ".point").first.focus()
    assert name in page.locator("#tip").inner_text()
    before = shown(page, SPEED, ".point").count()
    page.locator("#legend").get_by_role("button", name=name, exact=True).click()
    expect(shown(page, SPEED, ".point")).not_to_have_count(before)
    assert 0 < shown(page, SPEED, ".point").count() < before


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
    assert shown(page, "Ablation", ".bars li").count() == 6
    for data in ("far, 1,000 × 20, cosine", "GloVe word vectors, 1,000 × 20, cosine"):  # noqa: RUF001
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
