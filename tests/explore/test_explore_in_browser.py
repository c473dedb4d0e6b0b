"""The page of `pcpq explore` in a browser."""

import re

import pytest
from chromium import PATIENCE, expect, launched
from explore_shapes import HOSTILE, LARGE

pytest.importorskip("uvicorn")
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser():
    with launched() as chromium:
        yield chromium


@pytest.fixture
def open_page(browser, serve):
    """Show an index; afterwards there must have been no error, and no request to another server."""
    contexts, wrong, requests = [], [], []

    def show(name="words", width=1280, errors=(), **options):
        served = serve(name)
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: message.text in errors or wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append((request.url, served.address)))
        page.goto(served.address)
        if name != "empty":
            page.locator("#results tbody tr").first.wait_for()
        return page

    yield show
    for context in contexts:
        assert context.cookies() == []
        context.close()
    assert wrong == []
    assert requests
    assert all(url.startswith(address) for url, address in requests)


def items(page):
    return page.locator("#results button.item")


def search(page, **fields):
    """Fill fields by their element ids, search, and wait until the page is quiet."""
    for name, value in fields.items():
        page.locator(f"#{name}").fill(value)
    page.get_by_role("button", name="Search", exact=True).click()
    quiet(page)


def quiet(page):
    expect(page.locator("[aria-busy]")).to_have_count(0)


def test_the_page_shows_an_index_and_its_first_search(open_page):
    page = open_page()
    expect(page).to_have_title("words \N{EN DASH} pcpq explore")
    assert page.locator("h1").inner_text() == "words"
    assert "2,500" in page.locator("#facts").inner_text()
    assert items(page).count() == 10
    assert page.locator("#results thead th").all_inner_texts() == [
        "#",
        "Item",
        "cosine",
        "even",
        "place",
        "kind",
    ]
    for chart in ("#curve svg", "#lists svg rect", "#bytes dt", "#stats dt", "#map path.dots"):
        assert page.locator(chart).count() > 0
    assert "drift" in page.locator("#stats").inner_text()
    assert "NaN" not in page.locator("body").inner_html()
    assert "undefined" not in page.locator("body").inner_html()


def test_an_item_is_searched_by_typing_and_by_a_result(open_page):
    page = open_page()
    search(page, id="word77", k="5")
    expect(page.locator("#results-about")).to_have_text("5 neighbours of “word77”")
    assert items(page).count() == 5
    assert "word77" not in items(page).all_inner_texts()
    name = items(page).first.inner_text()
    items(page).first.click()
    expect(page.locator("#results-about")).to_have_text(f"5 neighbours of “{name}”")
    expect(page.locator("#id")).to_have_value(name)


def test_a_row_of_a_file_is_searched(open_page):
    page = open_page()
    page.get_by_role("radio", name="Row").check()
    assert "queries.npy" in page.locator("#row-of").inner_text()
    search(page, row="4")
    expect(page.locator("#results-about")).to_have_text("10 neighbours of “row 4, query 4”")
    assert items(page).first.inner_text() == "word4"


# What Chromium writes to the console for answers that are errors.
REFUSED = "Failed to load resource: the server responded with a status of {} ({})"


def test_what_is_wrong_is_said_and_can_be_put_right(open_page):
    page = open_page(errors=[REFUSED.format(404, "Not Found"), REFUSED.format(400, "Bad Request")])
    problem = page.get_by_role("alert")
    search(page, id="nothing")
    expect(problem).to_have_text("id nothing is not in the index")
    assert items(page).count() == 0
    search(page, id="word5", where="place <<< 3")
    expect(problem).to_contain_text("place <<< 3")
    search(page, where="")
    expect(problem).to_have_text("")
    assert items(page).count() == 10


def test_a_condition_restricts_what_is_found(open_page):
    page = open_page()
    assert page.locator("#where-names").inner_text() == "Attributes: even, place, kind."
    search(page, id="word8", where="kind = 'b'")
    expect(page.locator("#results-about")).to_contain_text("1,250 of 2,500 vectors meet the condition")
    assert page.locator("#results tbody td:last-child").all_inner_texts() == ["b"] * 10
    expect(page.locator("#recall-note")).to_contain_text("1,250 vectors that meet the condition")
    search(page, where="place < 0")
    expect(page.locator("#results")).to_have_text("No vector meets the condition.")


def test_the_slider_changes_expected_recall_and_work(open_page):
    page = open_page()
    slider, expected, scanned = (page.locator(name) for name in ("#target", "#expected", "#scanned"))
    found = {}
    for key, target in (("Home", "0.5"), ("End", "1")):
        slider.press(key)
        assert page.locator("#target-shown").inner_text() == target
        assert slider.get_attribute("aria-valuetext") == f"target recall {target}"
        with page.expect_response("**/data/search") as answer:
            pass
        quiet(page)
        told = answer.value.json()
        assert expected.inner_text() == f"{told['settings']['recall']:.3f}"
        assert scanned.inner_text().startswith(f"{told['work']['rows_scanned']:,}")
        found[key] = told
    assert found["Home"]["settings"]["recall"] < found["End"]["settings"]["recall"]
    assert re.match(r"[\d.]+ (µs|ms|s)", page.locator("#time").inner_text())


def test_an_old_answer_never_replaces_a_newer_one(open_page):
    page = open_page()
    held = []

    def hold_first(route):
        if not held:
            held.append(route)
        else:
            route.continue_()

    page.route("**/data/search", hold_first)
    page.locator("#id").fill("word10")
    page.locator("#id").press("Enter")
    page.locator("#id").fill("word20")
    page.locator("#id").press("Enter")
    expect(page.locator("#results-about")).to_have_text("10 neighbours of “word20”")
    assert len(held) == 1
    held[0].continue_()
    page.evaluate("new Promise((done) => setTimeout(done, 300))")
    assert page.locator("#results-about").inner_text() == "10 neighbours of “word20”"


def test_a_point_of_the_map_shows_its_id_and_is_searched(open_page):
    page = open_page()
    area, tip = page.locator("#map"), page.locator("#tip")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(tip).to_be_visible()
    name = tip.locator("strong").inner_text()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#results-about")).to_have_text(f"10 neighbours of “{name}”")
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()
    assert page.locator("#map .result").count() == 10
    assert page.locator("#map .label").first.text_content() == name


def test_colours_follow_an_attribute(open_page):
    page = open_page()
    page.get_by_label("Colour").select_option("kind")
    expect(page.locator("#legend li")).to_have_text(["a 1,250", "b 1,250"])
    page.get_by_label("Colour").select_option("place")
    expect(page.locator("#legend li")).to_have_count(6)
    expect(page.locator("#map path.step-5")).to_have_count(1)


def test_the_map_zooms_and_pans(open_page):
    page = open_page()
    area = page.locator("#map")
    dots = page.locator("#map path.dots").first
    before = dots.get_attribute("d")
    page.get_by_role("button", name="Zoom in").click()
    assert dots.get_attribute("d") != before
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    zoomed, about = dots.get_attribute("d"), page.locator("#results-about").inner_text()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 120, steps=5)
    page.mouse.up()
    assert dots.get_attribute("d") != zoomed
    assert page.locator("#results-about").inner_text() == about  # a drag is no click
    page.get_by_role("button", name="Results", exact=True).click()
    page.get_by_role("button", name="All", exact=True).click()
    assert dots.get_attribute("d") == before


def test_everything_works_by_keyboard(open_page):
    page = open_page()
    about, focus = page.locator("#results-about"), "document.activeElement.id"
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(focus))
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        if reached[-1] in ("id", "random", "k", "where", "go", "target", "colour", "map"):
            assert page.evaluate(outline) == "solid", reached[-1]
        if reached[-1] == "map":
            break
    wanted = ["id", "random", "k", "where", "go", "target", "results", "colour", "nearer", "map"]
    assert [name for name in reached if name in wanted] == wanted
    tip = page.locator("#tip")
    page.keyboard.press("ArrowRight")
    expect(tip).to_be_visible()
    first = tip.locator("strong").inner_text()
    page.keyboard.press("ArrowDown")
    second = tip.locator("strong").inner_text()
    assert first != second
    assert second in page.locator("#status").inner_text()
    page.keyboard.press("Enter")
    expect(about).to_have_text(f"10 neighbours of “{second}”")
    expect(page.locator("#status")).to_contain_text(f"10 neighbours of “{second}”")
    page.keyboard.press("+")
    page.keyboard.press("0")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.locator("#id").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("word9")
    page.keyboard.press("Enter")
    expect(about).to_have_text("10 neighbours of “word9”")


def test_every_control_has_a_label(open_page):
    page = open_page()
    controls = page.locator("input:visible, select, button:visible, [role=application]")
    for control in controls.all():
        assert control.evaluate("(e) => e.ariaLabel || e.labels?.[0]?.textContent || e.textContent").strip()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(open_page, scheme):
    page = open_page(color_scheme=scheme)
    weak = page.evaluate(WEAK)
    assert weak == []
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light == {"light": "rgb(243, 245, 247)", "dark": "rgb(15, 19, 22)"}[scheme]


# Elements with text whose contrast to the background is below 4.5, as WCAG AA asks for.
WEAK = """(() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb(colour).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    while (!rgb(getComputedStyle(e).backgroundColor)[3]) e = e.parentElement;
    return getComputedStyle(e).backgroundColor;
  };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const text = [...e.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!text || !e.checkVisibility() || e.closest("#tip, .skip")) continue;
    const style = getComputedStyle(e);
    const [one, other] = [light(e.closest("svg") ? style.fill : style.color), light(behind(e))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) found.push([e.outerHTML.slice(0, 80), contrast]);
  }
  return found;
})()"""


def test_a_phone_never_scrolls_sideways(open_page):
    for name in ("words", "hostile", "few"):
        page = open_page(name, width=390, is_mobile=True, has_touch=True)
        assert page.evaluate("innerWidth") == 390
        assert page.evaluate(FITS)
        quiet(page)
    page = open_page(width=320, is_mobile=True, has_touch=True)
    assert page.evaluate(FITS)
    before = page.locator("#results-about").inner_text()
    page.locator("#map").tap()
    expect(page.locator("#results-about")).not_to_have_text(before)
    quiet(page)
    assert page.evaluate(FITS)


def test_the_page_fits_a_window_that_becomes_narrow(open_page):
    page = open_page()
    page.set_viewport_size({"width": 360, "height": 800})
    expect(page.locator("#lists svg")).to_have_js_property(
        "clientWidth", page.locator("#lists").evaluate("(e) => e.clientWidth")
    )
    assert page.evaluate(FITS)


def test_hostile_text_is_only_shown(open_page):
    page = open_page("hostile")
    assert items(page).first.inner_text().startswith(HOSTILE[:40])
    assert HOSTILE in page.locator("#results thead").inner_text()
    assert HOSTILE in page.locator("#results tbody td").all_inner_texts()
    page.get_by_label("Colour").select_option(HOSTILE)
    expect(page.locator("#legend")).to_contain_text("<img src=x onerror=")
    page.locator("#map").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tip")).to_contain_text("<img src=x onerror=")
    items(page).first.click()
    quiet(page)
    assert page.locator("img").count() == 1  # the icon
    assert page.locator("script").count() == 1
    assert page.evaluate("document.querySelectorAll('[onerror]').length") == 0


def test_scripts_that_get_into_the_page_do_not_run(open_page):
    page = open_page()
    refused = (
        """() => { try { document.body.innerHTML = '<b>x</b>'; return 'set'; } catch (e) { return e.name; } }"""
    )
    context = page.context
    with context.expect_event("console"):
        other = context.new_page()
        other.goto(page.url)
        assert other.evaluate(refused) == "TypeError"


def test_few_vectors_are_searched_exactly_and_the_slider_says_so(open_page):
    page = open_page("few")
    assert page.locator("#target").is_disabled()
    assert page.locator("#expected").inner_text() == "exact"
    assert "Up to 2,000 vectors are all compared" in page.locator("#recall-note").inner_text()
    assert page.locator("#curve-figure").is_hidden()
    assert page.locator("#where-field").is_hidden()
    search(page, id=str(LARGE))
    expect(page.locator("#results-about")).to_have_text(f"10 neighbours of “{LARGE}”")
    items(page).first.click()
    quiet(page)
    assert page.get_by_role("alert").inner_text() == ""


def test_codes_alone_are_shown_with_their_recall(open_page):
    page = open_page("codes")
    assert "codes only" in page.locator("#facts").inner_text()
    assert "by codes" in page.locator("#reranked").inner_text()
    assert "decoded from codes" in page.locator("#map-note").inner_text()
    page.locator("#target").press("End")
    quiet(page)
    expect(page.locator("#recall-note")).to_contain_text("out of reach with codes alone")


def test_integer_ids_without_attributes_are_shown(open_page):
    page = open_page("numbers")
    assert page.locator("#results thead th").all_inner_texts() == ["#", "Item", "squared distance"]
    search(page, id=" 17 ")
    expect(page.locator("#results-about")).to_have_text("10 neighbours of “17”")


def test_an_empty_index_says_that_it_is_empty(open_page):
    page = open_page("empty")
    expect(page.locator("#results")).to_have_text("This index is empty: there is nothing to find.")
    for name in ("#id", "#go", "#random", "#target"):
        assert page.locator(name).is_disabled()
    assert "There are no vectors" in page.locator("#map-note").inner_text()


def test_a_server_that_has_ended_is_noticed(open_page):
    page = open_page(errors=["Failed to load resource: net::ERR_FAILED"])
    page.route("**/data/search", lambda route: route.abort())
    search(page)
    expect(page.get_by_role("alert")).to_contain_text("Is pcpq explore still running?")
