"""Take the screenshots of docs/explore.md: `pcpq explore` on the bundled words, in Chromium.

python tools/screenshots.py             write docs/explore.png, explore_dark.png and explore_phone.png
python tools/screenshots.py --out DIR   write them elsewhere
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pcpq
from pcpq.datasets import load_words

DOCS = Path(__file__).resolve().parent.parent / "docs"
SHOTS: dict[str, dict[str, Any]] = {
    "explore": {"viewport": {"width": 1280, "height": 1130}, "color_scheme": "light"},
    "explore_dark": {"viewport": {"width": 1280, "height": 1130}, "color_scheme": "dark"},
    "explore_phone": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "light",
        "has_touch": True,
        "is_mobile": True,
    },
}
WORD, CONDITION = "violin", "length > 4"


def main() -> None:
    """Build the index, serve it and take the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.pcpq"
        words_index().save(path)
        server = subprocess.Popen(
            [sys.executable, "-m", "pcpq.cli", "explore", str(path), "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            take_all(json.loads(server.stdout.readline())["address"], options.out)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()


def words_index() -> pcpq.Index:
    """Return an index of the bundled words with a few attributes."""
    vectors, words = load_words()
    attributes = {
        "letter": [word[0] for word in words],
        "length": [len(word) for word in words],
        "rank": list(range(1, len(words) + 1)),  # words are sorted by frequency
    }
    return pcpq.build(vectors, ids=words, metric="cosine", attributes=attributes)


def take_all(address: str, folder: Path) -> None:
    """Write all screenshots to a directory."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        for name, settings in SHOTS.items():
            context = browser.new_context(**settings)
            page = context.new_page()
            page.goto(address)
            page.locator("#results tbody tr").first.wait_for()
            page.locator("#id").fill(WORD)
            page.get_by_label("Condition").fill(CONDITION)
            page.get_by_role("button", name="Search", exact=True).click()
            page.get_by_text(f"10 neighbours of “{WORD}”").first.wait_for()
            page.get_by_label("Colour").select_option("rank")
            page.locator(".legend .step-0").wait_for()
            page.mouse.move(2, 2)
            page.evaluate("scrollTo(0, 0)")
            with Image.open(io.BytesIO(page.screenshot())) as image:
                # 256 colours are enough, and a third of the bytes.
                image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
                    folder / f"{name}.png", optimize=True
                )
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
