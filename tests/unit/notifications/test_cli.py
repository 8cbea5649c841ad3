"""How the commands show messages."""

from __future__ import annotations

from app.notifications.cli import _delivery_line

DELIVERY = {
    "delivery_id": "msg_1",
    "target_id": "t1",
    "created_at": "2026-11-28T01:14:20Z",
    "due_at": "2026-11-28T01:19:20Z",
    "event_kind": "job.completed",
    "state": "PENDING",
    "problem": "it answered 500",
}


def test_a_message_names_its_target_and_when_it_is_sent_again() -> None:
    line = _delivery_line(DELIVERY)
    assert "  t1  " in line
    assert line.endswith("PENDING  it answered 500; again 2026-11-28T01:19:20Z")
    assert "again" not in _delivery_line({**DELIVERY, "state": "FAILED"})
    assert _delivery_line({**DELIVERY, "state": "DELIVERED", "problem": ""}).endswith("DELIVERED")
