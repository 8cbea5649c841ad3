"""A job on paper: what it says, in dark ink on white, whichever theme its reader has; nothing that can be pressed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenContext
from tests.harness.browser.page_rules import CONTRAST, OTHER_OF_COLORS, axe_issues
from tests.harness.variants import exhaustive

PRESSED = ".sidebar, .footer, .btn, .job-tabs, .choice, input:not([type=hidden]), select"
"""What is of no use on paper."""
SEEN = "(css) => [...document.querySelectorAll(css)].filter((one) => one.checkVisibility()).map((one) => one.outerHTML)"
WHITE = "rgb(255, 255, 255)"
A4_PX = {"width": 720, "height": 1040}
"""What its margins leave of a page, at 96 dots to the inch."""


@pytest.fixture
def paper(open_context: OpenContext) -> Page:
    """A window of a reader who has chosen the dark theme, that shows what would be printed."""
    page = open_context(viewport=A4_PX, color_scheme="dark").new_page()
    page.goto("/ui/jobs")
    page.get_by_role("button", name="Light or dark").click()
    page.emulate_media(media="print")
    return page


def assert_is_paper(page: Page) -> None:
    assert page.evaluate(SEEN, PRESSED) == []
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == WHITE
    assert axe_issues(page, only=CONTRAST) + axe_issues(page, only=OTHER_OF_COLORS) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= A4_PX["width"]


@pytest.mark.parametrize("path", ["", *exhaustive("?tab=layers", "?tab=outputs", "?tab=options", "/quality")])
def test_a_job_is_printed_without_what_can_be_pressed(paper: Page, finished: str, path: str) -> None:
    paper.goto(f"/ui/jobs/{finished}{path}")
    expect(paper.get_by_role("heading", level=1)).to_be_visible()
    assert_is_paper(paper)


def test_the_first_page_on_paper_has_verdict_outputs_pictures_and_files(paper: Page, finished: str) -> None:
    paper.goto(f"/ui/jobs/{finished}")
    for text in ("Verdict", "Weakest outputs", "Results on your pictures", "quantized model", "Multiply-adds"):
        expect(paper.locator("main")).to_contain_text(text, use_inner_text=True)  # what is not shown has none
    printed = paper.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= 2
    assert f"/jobs/{finished}/artifacts/out.nef".encode() in printed, "links can be followed from the file, too"


def test_a_failed_job_is_printed_with_its_reason(paper: Page, failed: str) -> None:
    paper.goto(f"/ui/jobs/{failed}")
    expect(paper.locator(".failure-reason")).to_be_visible()
    assert_is_paper(paper)


def test_the_list_is_printed_without_its_filter(another: str, paper: Page, finished: str) -> None:
    expect(paper.locator(f'a[href="/ui/jobs/{another}"]')).to_be_visible()
    expect(paper.locator(f'a[href="/ui/jobs/{finished}"]')).to_be_visible()
    assert_is_paper(paper)
