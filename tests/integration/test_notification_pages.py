"""The page and the API of notifications: a target is added, tested, switched off and removed."""

from __future__ import annotations

import re

import pytest

from app.bootstrap.container import Container
from app.notifications.store.tables import deliveries
from tests.harness.users import OURS, Within

PAGE = "/ui/account/notifications"


def test_a_target_is_added_tested_switched_off_and_removed(web: Within, web_container: Container) -> None:
    fields = {"kind": "webhook", "address": "https://example.org/hook", "events": ["job.failed", "job.completed"]}
    made = web.post(PAGE, data=fields, headers=OURS)
    secret = re.search(r"whsec_[A-Za-z0-9+/=]+", made.text)
    assert secret, made.text
    page = web.get(PAGE).text
    assert secret[0] not in page, "it is shown once"
    assert "Job failed" in page
    (target,) = web_container.notifications.targets.of("local")
    assert web.post(f"{PAGE}/{target.target_id}/test", headers=OURS).status_code == 303
    with web_container.database.write() as conn:
        conn.execute(deliveries.update().values(problem="it answered 500", due_at="2020-01-01T00:00:00.000Z"))
    page = web.get(PAGE).text
    assert "Waiting" in page and 'data-label="To">Webhook<' in page
    assert "it answered 500<br>It is sent again within a minute." in page
    web.post(f"{PAGE}/{target.target_id}/switch", data={"is_enabled": "false"}, headers=OURS)
    assert not web_container.notifications.targets.get("local", target.target_id).is_enabled
    web.post(f"{PAGE}/{target.target_id}/remove", headers=OURS)
    assert web.get("/notifications/deliveries").json() == {"deliveries": []}


def test_what_cannot_be_sent_to_is_said_and_what_was_typed_stays(web: Within) -> None:
    answer = web.post(PAGE, data={"kind": "webhook", "address": "http://127.0.0.1/x"}, headers=OURS)
    assert answer.status_code == 403
    assert "private network" in answer.text
    assert 'value="http://127.0.0.1/x"' in answer.text


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"kind": "webhook", "address": "http://10.0.0.1/"}, 403, "ADDRESS_REFUSED"),
        ({"kind": "webhook", "address": "nonsense"}, 422, "BAD_URL"),
        ({"kind": "email", "address": "ada@example.org"}, 409, "MAIL_NOT_CONFIGURED"),
        ({"kind": "pigeon", "address": "https://example.org/"}, 422, "BAD_INPUT"),
        ({"kind": "chat", "address": "https://example.org/", "events": ["job.vanished"]}, 422, "BAD_INPUT"),
        ({"kind": "chat", "address": "https://example.org/", "subject": "cat:1"}, 422, "BAD_INPUT"),
    ],
)
def test_what_is_no_target_is_refused_and_nothing_is_kept(
    web: Within, body: dict[str, object], status: int, code: str
) -> None:
    answer = web.post("/notifications/targets", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert web.get("/notifications/targets").json() == {"targets": []}


def test_a_user_has_so_many_targets_and_no_more(web: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.notifications.service.targets.MOST", 2)
    body = {"kind": "chat", "address": "https://example.org/services/key"}
    answers = [web.post("/notifications/targets", json=body) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert answers[0].json()["address"] == "https://example.org/services/…", "its last part is a key"


def test_a_target_is_tested_so_often_and_no_more(web: Within) -> None:
    body = {"kind": "chat", "address": "https://example.org/services/key"}
    target_id = web.post("/notifications/targets", json=body).json()["target_id"]
    answers = [web.post(f"/notifications/targets/{target_id}/test").status_code for _ in range(6)]
    assert answers == [202] * 5 + [429]
