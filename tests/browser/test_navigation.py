"""What the navigation tells by itself."""

from __future__ import annotations

from playwright.sync_api import Page


def test_the_number_of_running_jobs_is_asked_for_when_a_page_opens(page: Page) -> None:
    with page.expect_response("**/ui/jobs/running") as answer:
        page.goto("/ui/jobs")
    assert answer.value.status in (200, 204)
