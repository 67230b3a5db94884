"""Chromium without a window, for the tools that look at pages and the tests that use them: `with
opened() as browser`."""

import shutil
import sys
from contextlib import contextmanager


def program() -> str | None:
    names = "chromium", "chromium-browser", "google-chrome"
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def opened():
    "A browser of Playwright's that asks nobody on its own."
    from playwright.sync_api import sync_playwright

    if program() is None:
        sys.exit("no Chromium here: install Debian's package chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=program(),
            args="""--no-sandbox --disable-gpu --disable-background-networking
                --disable-component-update --disable-sync""".split(),
        )
        yield browser
        browser.close()
