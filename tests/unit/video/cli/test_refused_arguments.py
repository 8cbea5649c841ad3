"""What `modelmill video` refuses before it asks the service: an address where nothing answers stands for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.kit.cli.command import Exit
from tests.harness.command_line import typed_in

typed = typed_in("video")
JOB = "GLOBAL_ID_999.SUB_ID_1"
NOBODY = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMILL_URL", NOBODY)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("submit",), "node is missing"),
        (("submit", "--node", "a", "--video", "0"), "a DAG or --flow is missing"),
        (("submit", "/"), "/ cannot be read"),
        (("sets", "add", "--selector", "site=a"), "a DAG or --flow is missing"),
        (("constrain", JOB), "nothing is demanded"),
        (("constrain", JOB, "--delay", "soon"), "--delay: 'soon' is no time"),
        (("constrain", JOB, "--delay", "0.1,0.2,0.3"), "--delay: '0.1,0.2,0.3' is no time"),
        (("constrain", JOB, "--delay", ""), "--delay: '' is no time"),
        (("what-if",), "neither a job nor a DAG"),
        (("what-if", JOB, "--up", "fast"), "--up: 'fast' is no speed"),
        (("what-if", JOB, "--up", "cloud0=fast"), "--up: 'cloud0=fast' is no speed"),
        (("what-if", JOB, "--up", "=2"), "--up: '=2' is no speed"),
        (("what-if", JOB, "--up", "cloud0=nan"), "infinite or NaN"),
        (("stages", "set", "a", "--kind", "b", "-p", "x"), "--parameter: 'x' is none"),
        (("stages", "set", "a", "--kind", "b", "-p", "=x"), "--parameter: '=x' is none"),
        (("stages", "allow", "a", "alice", "--everybody"), "contradict each other"),
        (("stages", "allow", "a", "--administrators", "--everybody"), "contradict each other"),
    ],
)
def test_what_is_typed_wrongly_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    assert typed(monkeypatch, *arguments) == Exit.BAD_INPUT
    assert words in capsys.readouterr().err


PLAN = ("plan", JOB)
SINKS, NO_SINKS = ("sinks", "apply", JOB), "cannot be read as a list of sinks"
WHAT_IF = ("what-if", "--node", "edge0", "--video", "0", "--dag")


@pytest.mark.parametrize(
    ("arguments", "content", "words"),
    [
        (("submit",), "{", "JSON"),
        (("submit",), "[]", "JSON"),
        (PLAN, "{", "JSON"),
        (PLAN, "[]", "JSON"),
        (PLAN, {}, "has no video_conf"),
        (PLAN, {"video_conf": {}}, "has no flow_mapping"),
        (WHAT_IF, {"dag": "face_detection"}, "has no DAG"),
        (SINKS, "[", NO_SINKS),
        (SINKS, [], NO_SINKS),
        (SINKS, {"sinks": ["https://a.example"]}, NO_SINKS),
        (SINKS, {"sinks": [{"content": "rows"}]}, NO_SINKS),
        (SINKS, {"sinks": [{"address": 1}]}, NO_SINKS),
        (SINKS, {"sinks": [{"address": "https://a.example", "name": "door"}]}, NO_SINKS),
        (SINKS, {"sinks": [{"address": "https://a.example", "kind": "pigeon"}]}, NO_SINKS),
    ],
)
def test_a_file_without_what_the_command_needs_is_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    content: Any,
    words: str,
) -> None:
    file = tmp_path / "sent.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    assert typed(monkeypatch, *arguments, file) == Exit.BAD_INPUT
    told = capsys.readouterr().err
    assert str(file) in told and words in told


@pytest.mark.parametrize("arguments", [("list",), ("show", JOB), ("nodes",), ("watch", JOB)])
def test_without_a_service_the_exit_code_says_so(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    assert typed(monkeypatch, *arguments) == Exit.UNREACHABLE
