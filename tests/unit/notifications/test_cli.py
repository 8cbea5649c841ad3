"""How the commands show messages."""

from __future__ import annotations

import httpx
import pytest
from pydantic import ValidationError

from app.kit.errors import BadRequest, NotFound
from app.notifications.cli import _delivery_line
from app.notifications.client import NotificationsClient
from app.notifications.schemas import TargetBody
from tests.harness.scripted_server import ScriptedServer

DELIVERY = {
    "delivery_id": "msg_1",
    "target_id": "t1",
    "created_at": "2026-11-28T01:14:20Z",
    "due_at": "2026-11-28T01:19:20Z",
    "event_kind": "job.completed",
    "state": "PENDING",
    "problem": "it answered 500.",
}


def test_a_message_names_its_target_and_when_it_is_sent_again() -> None:
    line = _delivery_line(DELIVERY)
    assert "  t1  " in line
    assert line.endswith("PENDING  it answered 500; again 2026-11-28T01:19:20Z")
    assert "again" not in _delivery_line({**DELIVERY, "state": "FAILED"})
    assert _delivery_line({**DELIVERY, "state": "DELIVERED", "problem": ""}).endswith("DELIVERED")


JOBS = ["0b0c0d0e-0000-4000-8000-000000000001", "0b0c0d0f-0000-4000-8000-000000000002"]


def test_one_job_is_meant_by_the_beginning_of_its_id_and_none_by_an_empty_one() -> None:
    listed = httpx.Response(200, json={"jobs": [{"job_id": job_id} for job_id in JOBS], "next_cursor": None})
    client = NotificationsClient("http://mill", transport=httpx.MockTransport(ScriptedServer(*[listed] * 3)))
    assert client.find_job("0b0c0d0f") == JOBS[1]
    with pytest.raises(BadRequest, match="fits 2 jobs"):
        client.find_job("0b0c")
    with pytest.raises(NotFound, match="there is no job 77"):
        client.find_job("77")
    with pytest.raises(BadRequest, match="the id of the job is empty"):
        client.find_job("")


@pytest.mark.parametrize("subject", ["job:0b0c0d0e", "job:", "account:1"])
def test_a_target_is_of_a_whole_id_for_another_would_never_be_met(subject: str) -> None:
    body = {"kind": "webhook", "address": "https://example.org"}
    assert TargetBody(**body, subject=f"job:{JOBS[0]}").new().subject == f"job:{JOBS[0]}"
    with pytest.raises(ValidationError, match="subject"):
        TargetBody(**body, subject=subject)
