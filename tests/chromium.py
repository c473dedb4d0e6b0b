"""Chromium, for tests of pages."""

import os
import shutil
from contextlib import contextmanager

import pytest

PATIENCE = 120_000  # milliseconds: many tests may run at once


def expect(found):
    """Playwright's expect, which waits; imported late, because Playwright may be missing."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE)
    return expect(found)


@contextmanager
def launched():
    """Chromium; without it tests are skipped, unless PCPQ_NEED_BROWSER is set."""
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
