"""Ways that are counted: a first visitor's two clicks to a NEF, the same without a mouse, and a job while it runs."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable

import pytest
from playwright.sync_api import Download, Page, expect

from tests.harness.api import Api, pngs, small_model
from tests.harness.browser.page_rules import axe_issues
from tests.harness.deployment import Deployment

JOB_PAGE = re.compile(r"/ui/jobs/[0-9a-f-]{36}$")
COUNT_CLICKS = """addEventListener("click", (event) => {
    if (event.isTrusted) sessionStorage.clicks = Number(sessionStorage.clicks || 0) + 1;
}, true)"""
MOST_TABS = 60


@pytest.fixture
def address(own_deployment: Deployment) -> str:
    return own_deployment.url


@pytest.fixture
def first_visit(page: Page, own_deployment: Deployment) -> Page:
    """The page that is open to somebody who has no job yet."""
    own_deployment.redis.flushall()
    page.add_init_script(COUNT_CLICKS)
    page.goto("/")
    expect(page.get_by_role("heading", name=re.compile("^No conversions"))).to_be_visible()
    return page


def downloaded(page: Page, press: Callable[[], None]) -> Download:
    page.wait_for_url(JOB_PAGE)
    expect(page.locator(".title-line")).to_contain_text("Converted", timeout=100_000)
    with page.expect_download() as begun:
        press()
    assert begun.value.suggested_filename == "out.nef"
    assert zipfile.is_zipfile(begun.value.path())
    return begun.value


def tab_to(page: Page, text: str) -> None:
    """Press Tab until the link or button with this text has the focus, which is seen there."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText")[:40].strip() == text:
            assert page.evaluate("document.activeElement.matches(':focus-visible')")
            return
    pytest.fail(f"{text!r} is not reached by {MOST_TABS} tabs")


def test_a_first_visitor_has_a_nef_after_two_clicks(first_visit: Page) -> None:
    page = first_visit
    page.get_by_role("button", name="Convert now").first.click()
    downloaded(page, page.get_by_role("link", name="out.nef", exact=True).first.click)
    assert page.evaluate("sessionStorage.clicks") == "2"


def test_a_first_visitor_has_a_nef_by_the_keyboard_alone(first_visit: Page) -> None:
    page = first_visit
    tab_to(page, "Convert now")
    page.keyboard.press("Enter")
    page.wait_for_url(JOB_PAGE)
    expect(page.locator(".title-line")).to_contain_text("Converted", timeout=100_000)
    tab_to(page, "out.nef")
    downloaded(page, lambda: page.keyboard.press("Enter"))


@pytest.mark.exhaustive  # the words on such a job are judged elsewhere
def test_axe_finds_nothing_while_a_job_is_on_its_way(page: Page, own_deployment: Deployment, api: Api) -> None:
    with own_deployment.paused(own_deployment.processes[2]):
        job_id = api.start(small_model(), pngs(3))
        page.goto(f"/ui/jobs/{job_id}")
        expect(page.locator(".title-line")).to_contain_text("Waiting for NEF")
        assert axe_issues(page) == []
        page.goto("/ui/jobs")
        expect(page.get_by_text("Waiting for NEF")).to_be_visible()
        assert axe_issues(page) == []
