"""The list of services as a browser without scripts uses it."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import sqlalchemy as sa

from app.joint_inference.model.status import ConditionType, Reason
from app.kit.clock import now
from tests.harness.joint.pages import TALLY, Browser, names_in
from tests.harness.page_text import polled, text_of


def test_who_has_no_service_is_told_what_to_do_first(browser: Browser) -> None:
    page = browser.get("/ui/services")
    text = text_of(page)
    assert "No service yet" in text and "Start the demonstration" in text
    assert text.index("Add nodes") < text.index("Add models") < text.index("Create a service from them")
    for link in ("/ui/nodes", "/ui/models", "/ui/services/new"):
        assert f'href="{link}"' in page.text


def test_the_list_says_state_reason_workers_and_figures(browser: Browser) -> None:
    faces = browser.make("faces")
    browser.condition(faces, ConditionType.RUNNING, Reason.DEGRADED, "connection refused")
    browser.report(faces, TALLY)
    page = browser.get("/ui/services")
    text = text_of(page)
    assert "It answers, but not everything works" in text and 'title="connection refused"' in page.text
    assert "edge0 → cloud0" in text and "small → big" in text
    assert "650 / 300 / 50" in text and "30.0 %" in text
    assert re.search(r'class="bar [^"]*" x="0" y="0" width="30.0"', page.text)


def test_a_service_that_reported_nothing_has_no_figures(browser: Browser) -> None:
    browser.make("faces")
    assert "nothing yet" in text_of(browser.get("/ui/services"))


def test_filters_narrow_the_list_and_a_state_that_is_none_is_refused(browser: Browser) -> None:
    one, _ = browser.make("faces-one"), browser.make("digits")
    browser.condition(one, ConditionType.FAILED, Reason.MODEL_NOT_FOUND)
    assert names_in(browser.get("/ui/services?q=faces")) == ["faces-one"]
    assert names_in(browser.get("/ui/services?state=Failed")) == ["faces-one"]
    assert "No service matches" in text_of(browser.get("/ui/services?q=face&state=Running"))
    assert browser.get("/ui/services?state=Wrong").status_code == 422
    assert browser.get("/ui/services?cursor=none").status_code == 422


def test_the_list_renews_itself_only_when_something_in_it_changed(browser: Browser) -> None:
    faces = browser.make("faces")
    (again,) = polled(browser.get("/ui/services?q=faces"))
    assert again.startswith("/ui/services/rows?q=faces") and browser.get(again).status_code == 204
    browser.condition(faces, ConditionType.FAILED, Reason.NODE_NOT_FOUND)
    renewed = browser.get(again, headers={"HX-Request": "true"})
    assert renewed.status_code == 200 and "A node is missing" in text_of(renewed) and polled(renewed) != [again]


def test_a_long_list_is_gone_through_by_links_and_keeps_its_filter(browser: Browser) -> None:
    begin = now() - timedelta(hours=1)
    made = [browser.make(f"one-{n:03d}", at=begin + timedelta(seconds=n)).name for n in range(103)]
    url, seen, pages = "/ui/services?q=one", [], 0
    while url:
        page = browser.get(url)
        seen += names_in(page)
        match = re.search(r'rel="next" href="([^"]+)"', page.text)
        url, pages = html.unescape(match[1]) if match else "", pages + 1
        assert "q=one" in url or not url
    assert pages == 3 and seen == made[::-1]


def test_more_services_need_no_more_queries(browser: Browser) -> None:
    """Not one for each row."""
    statements: list[str] = []
    engine = browser.container.database._engine
    sa.event.listen(engine, "before_cursor_execute", lambda *facts: statements.append(facts[2]))

    def queries() -> int:
        statements.clear()
        assert browser.get("/ui/services").status_code == 200
        return len([statement for statement in statements if "joint_" in statement or "node" in statement])

    browser.make("first")
    few = queries()
    for number in range(30):
        browser.make(f"further-{number}")
    assert queries() == few >= 1
