"""What every page owes its readers: it fits a phone, and axe-core finds nothing in either theme."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, ViewportSize

PHONE: ViewportSize = {"width": 375, "height": 800}
LONGEST_PX = 3000
"""Of a page on a phone: what is more is folded."""
DESKTOP: ViewportSize = {"width": 1280, "height": 720}
CONTRAST = "color-contrast"
"""Most of what axe-core costs, for it judges each text alone: see contrast_issues."""
OTHER_OF_COLORS = "link-in-text-block"
"""The other rule that can find something else in the other theme: themes set nothing but colors."""

STAND_STILL = """async () => {
    const fading = document.getAnimations().filter((one) => one instanceof CSSTransition);
    await Promise.allSettled(fading.map((one) => one.finished));
}"""
"""Colors fade from theme to theme: those in between are no color of ours."""
OPEN_DETAILS = """() => [...document.querySelectorAll('details')].forEach((one, place) => {
    if (place < 20) one.open = true; else one.remove();
})"""
"""A page with hundreds of them has many alike."""
NEW_CONTRASTS = """async ([rule, known]) => {
    const isKnown = new Set(known), behind = new Map();
    const isPlain = (style) => style.backgroundColor === "rgba(0, 0, 0, 0)" && style.backgroundImage === "none"
        && style.opacity === "1" && style.position === "static";
    const background = (one) => {
        if (one === null) return "";
        if (!behind.has(one)) {
            const style = getComputedStyle(one), above = background(one.parentElement);
            const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.position].join(" ");
            behind.set(one, isPlain(style) ? above : `${above}/${own}`);
        }
        return behind.get(one);
    };
    const field = "input:not([type=checkbox], [type=radio], [type=file]), select, textarea";
    const look = (one) => {
        const style = getComputedStyle(one), text = [style.color, style.fontSize, style.fontWeight, style.textShadow];
        return [one.matches(field) ? one.tagName : "", ...text, background(one)].join("|");
    };
    const place = (one) => one && `${place(one.parentElement)}>${one.tagName}.${one.getAttribute("class")}`;
    const hasText = (one) => one.matches(field)
        || [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    const isSeen = (one) => {
        const {width, height, bottom} = one.getBoundingClientRect();
        return width > 1 && height > 1 && bottom > 0 && one.checkVisibility();  // others are only heard
    };
    const include = [...document.body.querySelectorAll("*")].filter((one) =>
        hasText(one) && isSeen(one) && !isKnown.has(look(one)) && !isKnown.has(look(one) + place(one)));
    if (!include.length) return [[], []];
    const runOnly = {type: "rule", values: [rule]};
    const result = await axe.run({include}, {runOnly, elementRef: true, iframes: false});
    const elements = (rules) => rules.flatMap((rule) => rule.nodes.map((node) => node.element));
    const looks = [
        ...elements(result.passes).map(look),
        ...elements(result.incomplete).map((one) => look(one) + place(one)),
    ];
    result.violations.forEach((rule) => rule.nodes.forEach((node) => delete node.element));
    return [result.violations, [...new Set(looks)]];
}"""
"""What is wrong with the texts whose looks are not known, and the looks of those that are good: colors, size and what
is behind them. What axe-core cannot judge, as it is partly covered, is known by its place, too."""
REPEATED_IDS = """() => {
    const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
    return ids.filter((id, place) => ids.indexOf(id) !== place);
}"""


_known_looks: set[str] = set()
"""How texts look on the pages that this process has judged, in either theme."""


def assert_sound(page: Page) -> None:
    """Of a page that was opened on a phone, in light colors."""
    assert_fits_a_phone(page)
    repeated = page.evaluate(REPEATED_IDS)
    assert not repeated, repeated
    page.set_viewport_size(DESKTOP)
    page.evaluate(OPEN_DETAILS)
    _assert_none(axe_issues(page, but=CONTRAST) + contrast_issues(page))
    page.emulate_media(color_scheme="dark")
    _assert_none(axe_issues(page, only=OTHER_OF_COLORS) + contrast_issues(page))


def assert_fits_a_phone(page: Page) -> None:
    """Nothing scrolls sideways, and the end is not out of sight."""
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"], _widest(page)
    height = page.evaluate("document.scrollingElement.scrollHeight")
    assert height <= LONGEST_PX, height


def _assert_none(issues: list[str]) -> None:
    assert not issues, "\n".join(issues)


def axe_issues(page: Page, *, only: str = "", but: str = "") -> list[str]:
    """What axe-core finds in the page itself; a viewer of others in a frame is not ours.

    Args:
        page: Open, in one of the themes.
        only: One rule, and not all.
        but: A rule to leave out.
    """
    _prepare(page)
    options: dict[str, Any] = {"resultTypes": ["violations"], "iframes": False}
    if only:
        options["runOnly"] = {"type": "rule", "values": [only]}
    if but:
        options["rules"] = {but: {"enabled": False}}
    return _texts(page.evaluate("(options) => axe.run(options).then((result) => result.violations)", options))


def contrast_issues(page: Page) -> list[str]:
    """What axe-core finds by its rule of contrast, in texts unlike those that were good on any page before.

    Pages share their colors. The rule takes longer than all others together, and would judge the same pairs on each.
    """
    _prepare(page)
    violations, looks = page.evaluate(NEW_CONTRASTS, [CONTRAST, sorted(_known_looks)])
    _known_looks.update(looks)
    return _texts(violations)


def _prepare(page: Page) -> None:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    page.evaluate(STAND_STILL)


def _texts(violations: list[dict[str, Any]]) -> list[str]:
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
