"""Services are changed and deleted by their pages."""

from __future__ import annotations

import html
import re

import httpx
import pytest
import yaml

from app.kit.clock import now
from tests.harness.joint.pages import USER, Browser, names_in, resource
from tests.harness.page_text import text_of


def generation_of(page: httpx.Response) -> str:
    match = re.search(r'name="generation" value="(\d+)"', page.text)
    assert match
    return match[1]


def test_the_yaml_can_be_changed(browser: Browser) -> None:
    browser.make("faces")
    page = browser.get("/ui/services/default/faces/edit")
    text = yaml.safe_dump(resource("faces", edge="another"))
    sent = {"text": text, "generation": generation_of(page)}
    answer = browser.send("/ui/services/default/faces/edit", sent)
    assert answer.status_code == 303 and browser.spec("faces")["edgeWorker"]["model"]["name"] == "another"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec: [", "is not readable YAML"),
        (yaml.safe_dump(resource("other")), "name"),
        (yaml.safe_dump({**resource("faces"), "spec": {}}), "$.spec.edgeWorker: is missing"),
    ],
)
def test_a_change_that_cannot_be_is_refused_and_the_text_stays(browser: Browser, text: str, message: str) -> None:
    browser.make("faces")
    page = browser.send("/ui/services/default/faces/edit", {"text": text, "generation": "1"})
    assert (
        page.status_code in (400, 409, 422)
        and message in text_of(page)
        and html.escape(text, quote=False)[:5] in page.text
    )
    assert browser.spec("faces") == resource("faces")["spec"]


def test_what_another_changed_meanwhile_is_not_overwritten_unseen(browser: Browser) -> None:
    browser.make("faces")
    seen = generation_of(browser.get("/ui/services/default/faces/edit"))
    patch = {"spec": {"edgeWorker": {"model": {"name": "theirs"}}}}
    browser.container.joint.services.merge(USER, "default", "faces", patch, now=now())
    text = yaml.safe_dump(resource("faces", edge="mine"))
    refused = browser.send("/ui/services/default/faces/edit", {"text": text, "generation": seen})
    assert refused.status_code == 409 and "changed meanwhile" in text_of(refused) and "mine" in refused.text
    again = {"text": text, "generation": generation_of(refused)}
    assert browser.send("/ui/services/default/faces/edit", again).status_code == 303
    assert browser.spec("faces")["edgeWorker"]["model"]["name"] == "mine"


def test_deleting_asks_first_and_then_says_what_goes_on(browser: Browser) -> None:
    faces = browser.make("faces")
    question = browser.get("/ui/services/default/faces/delete")
    assert "Delete this service?" in text_of(question) and names_in(browser.get("/ui/services")) == ["faces"]
    answer = browser.send("/ui/services/default/faces/delete", {})
    assert answer.status_code == 303
    assert "its workers are stopped first" in text_of(browser.get(answer.headers["location"]))
    assert "Being deleted" in text_of(browser.get("/ui/services/default/faces"))
    browser.container.joint.controller.reconcile(faces.uid, now=now())
    assert browser.get("/ui/services/default/faces").status_code == 404
