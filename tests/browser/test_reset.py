"""After a reset: the records are gone, the page says so in both languages, and one click submits the inputs again."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenContext
from tests.harness.api import Api, pngs, small_model
from tests.harness.browser.complaints import Watch
from tests.harness.deployment import Deployment

ENGLISH, CHINESE = "The system was restarted, please submit again", "系統已重啟,請重新送出"


@pytest.fixture
def address(own_deployment: Deployment) -> str:
    return own_deployment.url


@pytest.fixture
def forgotten(own_deployment: Deployment, api: Api) -> str:
    """The id of a job that was converted before the reset."""
    job = api.convert(small_model(), pngs(3), name="survivor", tags=["kept"])
    assert job["status"] == "COMPLETED", job["error"]
    own_deployment.redis.flushall()
    return str(job["job_id"])


def test_after_a_reset_the_page_says_so_and_one_click_converts_again(
    page: Page, watch: Watch, api: Api, forgotten: str
) -> None:
    answer = page.goto(f"/ui/jobs/{forgotten}")
    assert answer is not None and answer.status == 404
    watch.forgive("404")
    expect(page.get_by_role("heading", level=1)).to_have_text(ENGLISH)
    expect(page.locator("[lang=zh-Hant]", has_text=CHINESE)).to_be_visible()
    page.get_by_role("button", name="Submit again").click()
    page.wait_for_url(lambda url: re.search(r"/ui/jobs/[0-9a-f-]{36}$", url) is not None and forgotten not in url)
    expect(page.locator(".title-line")).to_contain_text("Converted", timeout=100_000)
    expect(page.get_by_role("heading", level=1)).to_have_text("survivor")
    assert api.http.get(f"/jobs/{page.url.rpartition('/')[2]}").json()["tags"] == ["kept"]


@pytest.mark.exhaustive  # in English above, and the texts of both are compared
def test_a_reader_of_chinese_is_told_in_chinese_first(
    open_context: OpenContext, watches: list[Watch], forgotten: str
) -> None:
    page = open_context(locale="zh-TW").new_page()
    page.goto(f"/ui/jobs/{forgotten}")
    watches[0].forgive("404")
    expect(page.get_by_role("heading", level=1)).to_have_text(CHINESE)
    expect(page.locator("[lang=en]", has_text=ENGLISH)).to_be_visible()


def test_a_list_that_is_open_during_the_reset_says_so_and_leads_to_what_was_made(
    page: Page, own_deployment: Deployment, api: Api
) -> None:
    api.convert(small_model(), pngs(3), name="listed")
    page.goto("/ui/jobs")
    expect(page.get_by_role("link", name="listed")).to_be_visible()
    own_deployment.redis.flushall()
    expect(page.locator(".notice")).to_contain_text(CHINESE, timeout=60_000)
    page.get_by_role("link", name="Download them or submit them again").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="out.nef", exact=True).first.click()
    assert download.value.suggested_filename == "out.nef"


def test_a_page_that_is_open_during_the_reset_says_so_by_itself(
    page: Page, watch: Watch, own_deployment: Deployment, api: Api
) -> None:
    with own_deployment.paused(own_deployment.processes[2]):
        job_id = api.start(small_model(), pngs(3))
        page.goto(f"/ui/jobs/{job_id}")
        expect(page.locator(".title-line")).to_contain_text("Waiting for NEF")
        watch.expect("404")
        own_deployment.redis.flushall()
        expect(page.get_by_role("heading", level=1)).to_have_text(ENGLISH)
