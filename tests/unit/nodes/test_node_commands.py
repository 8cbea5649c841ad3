"""What the command line says of a node."""

from __future__ import annotations

from datetime import UTC, datetime

from app.nodes.cli.node_commands import _format_node

NODE = {
    "name": "edge0",
    "side": "edge",
    "is_online": True,
    "labels": {},
    "worker_states": {"RUNNING": 1},
    "tls": {"is_serving": False},
}


def test_what_is_wrong_with_its_reports_is_a_line_below_it() -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    assert "\n" not in _format_node({**NODE, "report_problem": "", "delivery_problem": ""}, now)
    _, line = _format_node({**NODE, "delivery_problem": "The object store is full"}, now).split("\n")
    assert line == "  its reports wait, since the web server does not take them: The object store is full"
