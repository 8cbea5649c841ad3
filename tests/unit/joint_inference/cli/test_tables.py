"""What `modelmill joint show` prints of a service."""

from __future__ import annotations

from typing import Any

from app.joint_inference.cli.tables import service_lines
from tests.harness.joint.deployment import resource


def test_a_broadcast_is_shown_with_its_url_and_what_is_wrong() -> None:
    document = resource("gate", edge="edge0", cloud="cloud0", small="s", big="b")
    document["metadata"]["creationTimestamp"] = "2026-11-22T12:00:00Z"
    state = {"url": "rtsp://media.example/door", "frames": 3, "connections": 1, "core_share": 0.1}
    detail = {
        "broadcasts": [
            {**state, "source": "front", "is_sending": True, "problem": ""},
            {**state, "source": "", "is_sending": False, "problem": "404 Not Found"},
        ]
    }
    worker: dict[str, Any] = {"role": "edge", "name": "w", "node": "edge0", "state": "RUNNING", "is_online": True}
    worker |= {"reported": {}, "detail": detail}
    lines = list(service_lines({"resource": document, "rollout": None, "workers": [worker]}))
    assert [line for line in lines if line.startswith("broadcast")] == [
        "broadcast  front  rtsp://media.example/door  sending  3 frames",
        "broadcast  rtsp://media.example/door  not sending  3 frames  404 Not Found",
    ]
