"""A reader who goes from page to page in one window: a page in a warm browser costs a third of one in a new window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page

from tests.harness.browser.complaints import Watch
from tests.harness.browser.page_rules import PHONE

IS_THERE = """() => document.readyState === "complete"
    && !document.querySelector("[hx-trigger=load], .htmx-request")
    && [...document.images].every((one) => one.complete || one.loading === "lazy")"""
"""Also what a page fetches as soon as it is open; whatever it asks for again and again does not count."""


class Phone:
    """page: the window's only one. watch: of what happens on the page that is open."""

    def __init__(self, page: Page, watch: Watch) -> None:
        self.page = page
        self.watch = watch

    def visit(self, path: str) -> Page:
        """Open a page on a phone in light colors and wait until what it fetches afterwards is there."""
        self.page.goto("about:blank")  # whatever the page before still does is its own affair
        self.page.set_viewport_size(PHONE)
        self.page.emulate_media(color_scheme="light")
        self.watch.forget()
        self.page.goto(path)
        assert urlsplit(self.page.url).path == urlsplit(path).path
        self.page.wait_for_function(IS_THERE)
        if len(self.page.frames) > 1:  # a viewer of others, which fetches what it shows
            self.page.wait_for_load_state("networkidle")
        return self.page


@contextmanager
def opened_phone(chromium: Browser, address: str, patience_ms: float, **options: Any) -> Iterator[Phone]:
    """options: of Playwright's new_context."""
    context = chromium.new_context(base_url=address, viewport=PHONE, **{"locale": "en", **options})
    context.set_default_timeout(patience_ms)
    watch = Watch(context, urlsplit(address).netloc)
    yield Phone(context.new_page(), watch)
    context.close()
