"""Chromium without a window, for the tools that look at pages and the tests that use them: `with
opened() as browser`."""

import shutil
from contextlib import contextmanager


def program() -> str | None:
    return (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )


@contextmanager
def opened():
    "A browser of Playwright's that asks nobody on its own."
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=program(),
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        yield browser
        browser.close()
