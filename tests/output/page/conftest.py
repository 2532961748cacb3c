"""A headless Chromium for the tests of this folder, and a page in it that must stay quiet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

CHROMIUM = shutil.which("chromium")


# No longer than this folder: playwright keeps an event loop running, and tests of others start one.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    # Chromium's sandbox does not work for root.
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        yield from quiet_page(context)


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    with browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    ) as context:
        yield from quiet_page(context)


@pytest.fixture
def dark(browser: Browser) -> Iterator[Page]:
    with browser.new_context(color_scheme="dark") as context:
        yield from quiet_page(context)


@pytest.fixture(scope="package")
def lasting(browser: Browser) -> Iterator[Page]:
    """A page for many short tests."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        yield from quiet_page(context)


def quiet_page(context: BrowserContext) -> Iterator[Page]:
    """Yield a page that fails if it complains or asks for anything but files from disk."""
    page = context.new_page()
    faults: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    assert faults == []
    opened = [address for address in asked if not address.startswith("blob:null/")]
    assert all(address.endswith("/report.html") for address in opened), opened
