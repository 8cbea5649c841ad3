"""The languages: chosen by the browser, switched by the reader, remembered."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenContext
from tests.harness.variants import exhaustive


@pytest.mark.parametrize("path", ["/ui/jobs?q=one", *exhaustive("/ui/jobs/new", "/ui/system", "/ui/jobs/{finished}")])
def test_switching_the_language_keeps_the_page_and_survives_a_reload(page: Page, finished: str, path: str) -> None:
    path = path.format(finished=finished)
    page.goto(path)
    here, root = page.url, page.locator("html")
    expect(root).to_have_attribute("lang", "en")
    page.get_by_role("button", name="繁體中文").click()
    expect(root).to_have_attribute("lang", "zh-Hant")
    expect(page.get_by_role("navigation").first).to_contain_text("新轉換")
    expect(page).to_have_url(here)
    page.reload()
    expect(root).to_have_attribute("lang", "zh-Hant")
    page.get_by_role("button", name="English").click()
    expect(root).to_have_attribute("lang", "en")
    expect(page).to_have_url(here)


def test_the_language_of_the_browser_is_the_first(open_context: OpenContext) -> None:
    page = open_context(locale="zh-TW").new_page()
    page.goto("/ui/jobs")
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hant")
