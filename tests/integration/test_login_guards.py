"""What guards the log-in and the sessions that come of it: a limit on failures, and changes for our own pages alone."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from app.settings import Settings
from tests.harness.deployment import Deployment
from tests.harness.ports import free_port
from tests.harness.users import ADDRESSES, OURS, Person, changed, person, within


# --- too many attempts --------------------------------------------------------------------------------
def test_log_ins_that_fail_are_slowed_down_by_address(
    shared: Deployment, stranger: httpx.Client, alice: Person
) -> None:
    tries = [stranger.post("/ui/login", data={"token": "nonsense"}, headers=OURS) for _ in range(6)]
    assert [answer.status_code for answer in tries] == [401] * 5 + [429]
    assert 0 < int(tries[-1].headers["retry-after"]) <= 61
    assert stranger.post("/ui/login", data={"token": alice.token}, headers=OURS).status_code == 429
    assert stranger.get("/jobs", headers=alice.bearer).status_code == 200  # programs there go on
    with alice.browser() as elsewhere:
        assert elsewhere.get("/ui/jobs").status_code == 200


def test_a_token_is_guessed_at_ten_times_a_minute_from_however_many_addresses(shared: Deployment) -> None:
    ann = person(shared, "ann")
    wrong = {"Authorization": f"Bearer {changed(ann.token)}"}
    seen = []
    for _ in range(12):
        transport = httpx.HTTPTransport(local_address=next(ADDRESSES))
        with httpx.Client(base_url=shared.url, transport=transport, trust_env=False) as client:
            seen.append(client.get("/jobs", headers=wrong).status_code)
            right = client.get("/jobs", headers=ann.bearer).status_code
    assert seen == [401] * 10 + [429] * 2
    assert right == 200


def test_attempts_are_counted_while_redis_is_away(tmp_path: Path) -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    with within(Settings(data_dir=tmp_path, redis_url=away, secret_key=SecretStr("k"), accounts=True)) as house:
        tries = [house.post("/ui/login", data={"token": "nonsense"}, headers=OURS).status_code for _ in range(6)]
    assert tries == [401] * 5 + [429]


# --- forged requests ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"HX-Request": "true"}, 201),
    ],
)
def test_a_session_changes_things_only_for_our_own_pages(alice: Person, headers: dict[str, str], status: int) -> None:
    with alice.browser() as browser:
        del browser.headers["Sec-Fetch-Site"]
        assert browser.post("/uploads/presign", json={}, headers=headers).status_code == status


def test_a_token_needs_no_origin(alice: Person) -> None:
    with alice.api() as api:
        assert api.http.post("/uploads/presign", json={}).status_code == 201
