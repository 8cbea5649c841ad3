"""Services as lines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from app.joint_inference.cli.calibration import calibration_lines
from app.joint_inference.cli.tables import rollout_lines, service_lines, services_table
from tests.harness.joint.deployment import resource


def rollout(state: str, **fields: Any) -> dict[str, Any]:
    versions = {
        key: {"model": "faces", "version": n, "sha256": str(n) * 64} for key, n in (("former", 2), ("target", 3))
    }
    return {"state": state, **versions, "wave": 0, "nodes": [], "reason": "", **fields}


def test_a_roll_out_is_a_line_with_its_nodes_below() -> None:
    assert list(rollout_lines(rollout("complete"))) == ["rollout    complete  faces@3 on all nodes"]
    assert list(rollout_lines(rollout("progressing", wave=1, nodes=["cam0", "cam1"]))) == [
        "rollout    progressing  faces@2 -> faces@3  wave 1",
        "           on cam0, cam1",
    ]
    back = rollout("rolled-back", reason="cam0: no")
    assert list(rollout_lines(back)) == ["rollout    rolled-back  faces@2 -> faces@3  wave 0  cam0: no"]


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


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("It has ended:\nTraceback\n  File x\nValueError: no", "Crashing (5 min)  It has ended:  …  ValueError: no"),
        ("The disk is full.\nIt goes on.", "Crashing (5 min)  The disk is full.  It goes on."),
        ("", "Crashing (5 min)"),
    ],
)
def test_the_list_shows_the_first_and_last_line_of_a_message(message: str, text: str) -> None:
    since = "2026-11-22T12:00:00Z"
    record = {"namespace": "default", "name": "gate", "is_deleting": False, "state": "Failed", "active": 0, "failed": 1}
    record |= {"reason": "Crashing", "message": message, "since": since, "created_at": since, "metrics": {}}
    table = services_table([record], datetime(2026, 11, 22, 12, 5, tzinfo=UTC))
    assert list(table.columns[-1].cells)[-1] == text


def test_a_setting_of_a_calibration_has_what_other_samples_say_of_it() -> None:
    record = {"calibration_id": "c", "state": "READY", "samples": "x.zip", "links": {"page": "/c"}, "error": {}}
    setting = {"algorithm": "IBT", "parameters": {"threshold_box": "0.5"}, "upload": 0.2, "quality": 0.9, "check": None}
    check = {"upload": 0.25, "quality": 0.85, "low": 0.8, "high": 0.9}
    _, few, many = calibration_lines({**record, "settings": [setting, {**setting, "check": check}]})
    assert few == " 20.0% up   90.0%  IBT threshold_box=0.5"
    assert many == " 20.0% up   90.0%  checked 85.0% (80.0% to 90.0%)  IBT threshold_box=0.5"
