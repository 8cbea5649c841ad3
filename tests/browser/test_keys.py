"""By the keyboard alone: search and jump, and the rows of a list."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.harness.browser.page_rules import axe_issues


def test_the_palette_opens_searches_and_jumps_by_keys(page: Page, finished: str) -> None:
    page.goto("/ui/system")
    page.keyboard.press("Control+k")
    palette = page.locator("#palette")
    expect(palette).to_be_visible()
    expect(palette.get_by_role("option", name="New conversion")).to_be_visible()
    page.keyboard.type("finished one")
    entry = palette.locator(f'a[href="/ui/jobs/{finished}"]')
    expect(entry).to_have_attribute("aria-selected", "true")
    assert axe_issues(page) == []
    page.keyboard.press("ArrowDown")
    expect(entry).to_have_attribute("aria-selected", "false")
    page.keyboard.press("ArrowUp")
    expect(entry).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(finished))


def test_the_palette_closes_by_escape_and_gives_the_focus_back(page: Page, finished: str) -> None:
    page.goto("/ui/jobs")
    link = page.locator("[data-palette-open]")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#palette")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    expect(link).to_be_focused()


def test_rows_are_walked_ticked_and_opened_by_keys(page: Page, finished: str) -> None:
    page.goto("/ui/jobs?q=id:" + finished)
    row = page.locator("tr", has=page.locator(f'a[href="/ui/jobs/{finished}"]'))
    page.keyboard.press("j")
    expect(row.locator("[data-row-link]")).to_be_focused()
    page.keyboard.press("x")
    expect(row.get_by_role("checkbox")).to_be_checked()
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert axe_issues(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("[data-filter]")).to_be_focused()
    page.keyboard.type("j")
    expect(page.locator("[data-filter]")).to_have_value(f"id:{finished}j")
    page.goto("/ui/jobs?q=id:" + finished)  # the filter with the letter leaves no row
    row.locator("[data-row-link]").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/ui/jobs/{finished}"))


def test_a_ticked_job_is_tagged_by_keys_and_the_tag_is_taken_back(page: Page, finished: str) -> None:
    page.goto("/ui/jobs?q=name:finished")
    page.locator(f'input[name="id"][value="{finished}"]').check()
    page.get_by_role("button", name="Tag…").press("Enter")
    expect(page.get_by_role("button", name="Add the tag")).to_be_disabled()
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")
    tag = page.locator(".job-line .tag", has_text="by keys")
    expect(page.locator(".notice")).to_contain_text("1 job now has the tag by keys.")
    expect(tag).to_have_count(1)
    expect(page.locator("[data-filter]")).to_have_value("name:finished")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".notice")).to_contain_text("Undone")
    expect(tag).to_have_count(0)
