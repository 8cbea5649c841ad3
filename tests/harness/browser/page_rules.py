"""What every page owes its readers: it fits a phone, and axe-core finds nothing in either theme."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, ViewportSize

PHONE: ViewportSize = {"width": 375, "height": 800}
LONGEST_PX = 3000
"""Of a page on a phone: what is more is folded."""
DESKTOP: ViewportSize = {"width": 1280, "height": 720}
OF_COLORS = ("color-contrast", "link-in-text-block")
"""The rules that can find something else in the other theme: themes set nothing but colors."""

STAND_STILL = """async () => {
    const fading = document.getAnimations().filter((one) => one instanceof CSSTransition);
    await Promise.allSettled(fading.map((one) => one.finished));
}"""
"""Colors fade from theme to theme: those in between are no color of ours."""
OPEN_DETAILS = """() => [...document.querySelectorAll('details')].forEach((one, place) => {
    if (place < 20) one.open = true; else one.remove();
})"""
"""A page with hundreds of them has many alike."""
REPEATED_IDS = """() => {
    const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
    return ids.filter((id, place) => ids.indexOf(id) !== place);
}"""


def assert_sound(page: Page) -> None:
    """Of a page that was opened on a phone, in light colors."""
    assert_fits_a_phone(page)
    repeated = page.evaluate(REPEATED_IDS)
    assert not repeated, repeated
    page.set_viewport_size(DESKTOP)
    page.evaluate(OPEN_DETAILS)
    _assert_no_issues(page)
    page.emulate_media(color_scheme="dark")
    _assert_no_issues(page, *OF_COLORS)


def assert_fits_a_phone(page: Page) -> None:
    """Nothing scrolls sideways, and the end is not out of sight."""
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"], _widest(page)
    height = page.evaluate("document.scrollingElement.scrollHeight")
    assert height <= LONGEST_PX, height


def _assert_no_issues(page: Page, *rules: str) -> None:
    issues = axe_issues(page, *rules)
    assert not issues, "\n".join(issues)


def axe_issues(page: Page, *rules: str) -> list[str]:
    """What axe-core finds in the page itself; a viewer of others in a frame is not ours. rules: these, not all."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    page.evaluate(STAND_STILL)
    options: dict[str, Any] = {"resultTypes": ["violations"], "iframes": False}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    violations = page.evaluate("(options) => axe.run(options).then((found) => found.violations)", options)
    return [
        f"{issue['id']}: {node['target']} {node['failureSummary']}" for issue in violations for node in issue["nodes"]
    ]


def _widest(page: Page) -> str:
    """What reaches farthest to the right."""
    return str(
        page.evaluate(
            """() => [...document.body.querySelectorAll("*")]
                .map((one) => [Math.round(one.getBoundingClientRect().right), one.tagName, one.className, one.id])
                .sort((a, b) => b[0] - a[0]).slice(0, 6)"""
        )
    )
