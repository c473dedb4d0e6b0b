"""Write docs/report.html from the committed results, and a picture of its top: python tools/report.py

The picture needs playwright and Chromium; without them only the page is written.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pcpq.experiments.report import write_report

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "benchmarks" / "results"
PAGE, PICTURE = PROJECT / "docs" / "report.html", PROJECT / "docs" / "report.png"
SIZE = {"width": 1280, "height": 1500}


def take_picture(page: Path, picture: Path) -> bool:
    """Save the top of a page as a PNG; return False without a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return False
    chromium = shutil.which("chromium")
    if chromium is None:
        return False
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page(viewport=SIZE, color_scheme="light")
        shown.goto(page.as_uri())
        shown.screenshot(path=picture)
        browser.close()
    return True


def main() -> None:
    """Write the page and its picture."""
    print(f"wrote {write_report(RESULTS, PAGE).relative_to(PROJECT)}")
    if take_picture(PAGE, PICTURE):
        print(f"wrote {PICTURE.relative_to(PROJECT)}")
    else:
        print("no browser: the picture is as it was")


if __name__ == "__main__":
    main()
