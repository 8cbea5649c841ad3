"""What every page owes its readers: it fits a phone, and axe-core finds nothing serious in either theme."""

from __future__ import annotations

from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize

PHONE: ViewportSize = {"width": 375, "height": 800}
DESKTOP: ViewportSize = {"width": 1280, "height": 720}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SERIOUS = ("serious", "critical")


def assert_sound(page: Page) -> None:
    """Of a page that was opened on a phone."""
    assert_fits_a_phone(page)
    page.set_viewport_size(DESKTOP)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert serious_issues(page) == [], scheme


def assert_fits_a_phone(page: Page) -> None:
    """Nothing scrolls sideways."""
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"], _widest(page)


def serious_issues(page: Page) -> list[str]:
    """What axe-core finds in the page itself; a viewer of others in a frame is not ours."""
    found = Axe().run(page, options={"resultTypes": ["violations"], "iframes": False}).response["violations"]
    return [
        f"{issue['id']}: {node['target']} {node['failureSummary']}"
        for issue in found
        if issue["impact"] in SERIOUS
        for node in issue["nodes"]
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
