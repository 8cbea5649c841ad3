"""The tabs of a job's page: by keyboard, without JavaScript, by their addresses; and what is drawn in them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenContext
from tests.harness.api import Api, pngs, small_model
from tests.harness.browser.page_rules import CONTRAST, assert_fits_a_phone, axe_issues
from tests.harness.deployment import Deployment
from tests.harness.variants import exhaustive

SHOWS = {
    "Layers": re.compile("Accumulated SNR"),
    "Outputs": re.compile("Outputs at each step"),
    "Options": re.compile("Built with"),
    "API": re.compile("curl"),
}


def tab(page: Page, name: str) -> None:
    expect(page.locator(".job-tabs [aria-current]")).to_contain_text(name)


def test_the_tabs_are_gone_through_by_keyboard_and_keep_their_place(page: Page, finished: str) -> None:
    page.goto(f"/ui/jobs/{finished}")
    tab(page, "Overview")
    page.locator("#job-tab-overview").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#job-tab-layers")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".job-panel")).to_contain_text(SHOWS["Layers"])
    expect(page).to_have_url(re.compile(r"tab=layers$"))
    tab(page, "Layers")
    expect(page.locator("#job-tab-layers")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".job-panel")).to_contain_text(SHOWS["Outputs"])
    page.go_back()
    expect(page.locator(".job-panel")).to_contain_text(SHOWS["Layers"])
    tab(page, "Layers")


@pytest.mark.parametrize("name", ["Layers", *exhaustive("Outputs", "Options", "API")])
def test_a_tab_is_a_link_that_works_without_script(open_context: OpenContext, finished: str, name: str) -> None:
    page = open_context(java_script_enabled=False).new_page()
    page.goto(f"/ui/jobs/{finished}")
    page.locator(".job-tabs").get_by_role("link", name=re.compile(f"^{name}")).click()
    tab(page, name)
    expect(page.locator(".job-panel")).to_contain_text(SHOWS[name])


def test_a_layer_leads_to_its_node_and_the_node_back_to_its_row(page: Page, finished: str) -> None:
    page.goto(f"/ui/jobs/{finished}?tab=layers&rows=all")
    row = page.locator("tr[id^=layer-]").first
    row_id = row.get_attribute("id")
    row.locator(".layer-name a").click()
    expect(page).to_have_url(re.compile(r"tab=graph#node-\d+$"))
    node = page.locator(f"#{page.url.rpartition('#')[2]}")
    expect(node).to_be_in_viewport()
    node.press("Enter")
    expect(page).to_have_url(re.compile(rf"tab=layers&rows=all#{row_id}$"))
    expect(page.locator(f"#{row_id}")).to_be_in_viewport()


def test_the_log_of_a_tab_that_was_opened_later_is_searched(page: Page, finished: str) -> None:
    page.goto(f"/ui/jobs/{finished}")
    page.locator("#job-tab-log").click()
    log = page.locator("[data-log-text]")
    expect(log).not_to_be_empty()
    page.get_by_label("Search the log").fill("e")
    expect(log.locator("mark").first).to_be_visible()


def test_the_pictures_are_drawn_over_with_what_both_models_say(page: Page, finished: str) -> None:
    page.goto(f"/ui/jobs/{finished}?tab=pictures")
    pictures = page.locator(".pictures")
    expect(pictures.locator(":is(.answered, .hint)").first).to_be_visible()
    expect(page.locator(".pictures[hx-trigger=load]")).to_have_count(0)
    expect(pictures.locator("li")).not_to_have_count(0)
    pictures.locator("li a").first.click()
    expect(page.locator(".picture-large")).to_be_visible()
    page.get_by_role("link", name="Better →").click()
    expect(page).to_have_url(re.compile("picture=1"))


@pytest.mark.parametrize("scheme", ["dark", *exhaustive("light")])
def test_the_words_on_a_stage_that_runs_are_easy_to_read(open_context: OpenContext, finished: str, scheme: Any) -> None:
    """It runs for too short a time to be caught: the stages of an ended job are made to look as if."""
    page = open_context(color_scheme=scheme).new_page()
    page.goto(f"/ui/jobs/{finished}")
    page.locator(".stage-bar > *").evaluate_all("(stages) => stages.forEach((one) => one.classList.add('is-busy'))")
    expect(page.locator(".stage-bar > .is-busy")).to_have_count(3)
    assert axe_issues(page, only=CONTRAST) == []


def test_the_name_is_edited_where_it_stands(page: Page, api: Api) -> None:
    job_id = api.start(small_model(), pngs(3), name="before")
    page.goto(f"/ui/jobs/{job_id}")
    page.get_by_role("button", name="Edit").press("Enter")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    assert axe_issues(page) == []
    page.get_by_label("Name", exact=True).fill("after")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("after")
    expect(page.locator(".notice.ok")).to_contain_text("Saved.")


def test_enter_in_a_question_never_destroys(page: Page, finished: str, api: Api) -> None:
    page.goto(f"/ui/jobs/{finished}")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert api.http.get(f"/jobs/{finished}").status_code == 200


def test_a_failure_says_whose_it_is_and_leads_into_the_log(page: Page, failed: str) -> None:
    page.goto(f"/ui/jobs/{failed}")
    failure = page.locator(".failure")
    expect(failure).to_contain_text("The model or the pictures")
    reason = failure.locator(".failure-reason").inner_text()
    assert page.locator("main").inner_text().count(reason) == 1
    failure.get_by_role("link", name="Open the log").click()
    tab(page, "Log")


@pytest.fixture(scope="module")
def searched(service: Deployment) -> str:
    """The id of a job that a search was made for, which tried a dozen candidates."""
    with Api(service.url) as client:
        options = {"quantization": {"goal": "snr>=60", "budget_s": 20}}
        job = client.convert(small_model(), pngs(20), name="A searched one", options=options)
    assert job["status"] == "COMPLETED", job["error"]
    return str(job["job_id"])


@pytest.mark.parametrize("job", ["searched", *exhaustive("finished", "failed")])
def test_the_page_is_short_on_a_phone(open_context: OpenContext, request: pytest.FixtureRequest, job: str) -> None:
    page = open_context(viewport={"width": 375, "height": 800}).new_page()
    page.goto(f"/ui/jobs/{request.getfixturevalue(job)}")
    expect(page.locator(".job-panel")).to_be_visible()
    assert page.locator(".pareto").count() == (job != "failed")
    assert_fits_a_phone(page)
