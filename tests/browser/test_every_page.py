"""What holds for every page, finished and failed, in light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenContext
from tests.browser.watching import Watch

PHONE = {"width": 375, "height": 800}
PAGES = {
    "list": "/ui/jobs",
    "list without a match": "/ui/jobs?q=no-such-name",
    "new": "/ui/jobs/new",
    "new from a job": "/ui/jobs/new?from={finished}",
    "finished job": "/ui/jobs/{finished}",
    "failed job": "/ui/jobs/{failed}",
    "quality": "/ui/jobs/{finished}/quality",
    "comparison": "/ui/jobs/compare?a={finished}&b={another}",
    "choice of a comparison": "/ui/jobs/compare",
    "system": "/ui/system",
    "graph": "/ui/jobs/{finished}/graph/out.onnx",
    "unknown job": "/ui/jobs/00000000-0000-4000-8000-000000000000",
    "unknown page": "/ui/nothing",
}
UNKNOWN = ("unknown job", "unknown page")
SERIOUS = ("serious", "critical")
Visit = Callable[[Page, str], None]


@pytest.fixture
def visit(finished: str, another: str, failed: str, watches: list[Watch]) -> Visit:
    """Open a page by its name and wait until what it fetches afterwards is there."""

    def visited(page: Page, name: str) -> None:
        page.goto(PAGES[name].format(finished=finished, another=another, failed=failed))
        page.wait_for_load_state("networkidle")
        expect(page.locator("[hx-trigger=load]")).to_have_count(0)
        if name in UNKNOWN:
            for watch in watches:
                watch.forgive(r"status of 404")

    return visited


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_serious_issue(open_context: OpenContext, visit: Visit, name: str, scheme: str) -> None:
    page = open_context(color_scheme=scheme).new_page()
    visit(page, name)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert serious_issues(page) == []


def serious_issues(page: Page) -> list[str]:
    """What axe-core finds in the page itself; a viewer of others in a frame is not ours."""
    found = Axe().run(page, options={"resultTypes": ["violations"], "iframes": False}).response["violations"]
    return [
        f"{issue['id']}: {node['target']} {node['failureSummary']}"
        for issue in found
        if issue["impact"] in SERIOUS
        for node in issue["nodes"]
    ]


@pytest.mark.parametrize("language", ["en", "zh-TW"])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_scrolls_sideways_on_a_phone(open_context: OpenContext, visit: Visit, name: str, language: str) -> None:
    page = open_context(viewport=PHONE, locale=language).new_page()
    visit(page, name)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"], _widest(page)


def _widest(page: Page) -> str:
    """What reaches farthest to the right."""
    return str(
        page.evaluate(
            """() => [...document.body.querySelectorAll("*")]
                .map((one) => [Math.round(one.getBoundingClientRect().right), one.tagName, one.className, one.id])
                .sort((a, b) => b[0] - a[0]).slice(0, 6)"""
        )
    )


@pytest.mark.parametrize("name", PAGES)
def test_no_error_no_broken_policy_and_no_other_host(page: Page, watch: Watch, visit: Visit, name: str) -> None:
    visit(page, name)
    assert any("/static/" in url for url in watch.requests)
    assert watch.complaints == []


def test_a_broken_policy_and_another_host_would_be_noticed(page: Page, watch: Watch) -> None:
    page.goto("/ui/system")
    with page.expect_console_message(lambda message: "inline script" in message.text):
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.ran = true";
                document.body.append(script);
            }"""
        )
    with page.expect_console_message(lambda message: "elsewhere.invalid" in message.text):
        page.evaluate("() => { new Image().src = 'http://elsewhere.invalid/a.png'; }")
    assert any("inline script" in complaint for complaint in watch.complaints)
    assert any("elsewhere.invalid" in complaint for complaint in watch.complaints)
    assert page.evaluate("window.ran") is None
    watch.forgive(r"inline script|elsewhere\.invalid")


def test_axe_would_notice_a_text_that_is_hard_to_read_and_a_field_without_a_name(page: Page) -> None:
    page.goto("/ui/system")
    page.evaluate(
        """() => {
            const text = document.createElement("p");
            text.style.color = "#bbb";
            text.style.background = "#fff";
            text.textContent = "hardly there";
            document.querySelector("main").append(text, document.createElement("input"));
        }"""
    )
    assert {issue.partition(":")[0] for issue in serious_issues(page)} == {"color-contrast", "label"}
