"""Without JavaScript everything works, more slowly."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from app.conversion.pages.new import SAMPLE_MODEL, SAMPLE_PICTURES
from tests.browser.conftest import OpenContext
from tests.harness.api import Api, has_ended


def test_a_plain_form_submits_and_its_page_shows_the_result(open_context: OpenContext, api: Api) -> None:
    context = open_context(java_script_enabled=False)
    page = context.new_page()
    page.goto("/ui/jobs/new")
    page.locator("#file-model").set_input_files(SAMPLE_MODEL)
    page.locator("#file-images").set_input_files(SAMPLE_PICTURES)
    page.get_by_label("Name").fill("without script")
    page.get_by_role("button", name="Convert", exact=True).click()
    page.wait_for_url(re.compile(r"/ui/jobs/[0-9a-f-]{36}$"))
    job_id = page.url.rpartition("/")[2]
    assert api.wait(job_id, has_ended)["status"] == "COMPLETED"
    url = page.url
    page = context.new_page()  # the other one reloads itself
    page.goto(url)
    expect(page.locator(".title-line")).to_contain_text("Converted")
    with page.expect_download() as begun:
        page.get_by_role("link", name="out.nef", exact=True).first.click()
    page.get_by_role("button", name="What is Cosine, worst?").press("Enter")
    expect(page.get_by_text("the SNR is stricter")).to_be_visible()
    assert begun.value.path().read_bytes() == api.http.get(f"/jobs/{job_id}/artifacts/out.nef").content


def test_the_page_of_a_running_job_reloads_itself(open_context: OpenContext, api: Api) -> None:
    page = open_context(java_script_enabled=False).new_page()
    page.goto("/ui/jobs/new")
    page.get_by_role("button", name="Try the sample").click()
    page.wait_for_url(re.compile(r"/ui/jobs/[0-9a-f-]{36}$"))
    expect(page.locator(".title-line")).to_contain_text("Converted", timeout=100_000)
