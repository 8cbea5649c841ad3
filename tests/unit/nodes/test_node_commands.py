"""What the command line says of a node."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.kit.cli.command import Exit
from app.nodes.cli.node_commands import _format_node
from tests.harness.command_line import typed_in

typed = typed_in("nodes")

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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "edge0", "--side", "left"), "'left' is no side"),
        (("label", "edge0", "site"), "'site' is no label"),
        (("label", "edge0", "site=a", "floor"), "'floor' is no label"),
        (("label", "edge0", "=a"), "'=a' is no label"),
        (("label", "edge0", "--", "-"), "'-' is no label"),
        (("allow", "edge0", "alice", "--everybody"), "contradict each other"),
        (("allow", "edge0", "--administrators", "--everybody"), "contradict each other"),
        (("allow", "edge0", "alice", "--video", "0", "--source", "video:0"), "contradict each other"),
    ],
)
def test_what_is_typed_wrongly_is_named_and_the_service_is_not_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.setenv("MODELMILL_URL", "http://127.0.0.1:1")
    assert typed(monkeypatch, *arguments) == Exit.BAD_INPUT
    assert words in capsys.readouterr().err
