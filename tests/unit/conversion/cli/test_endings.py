"""With which exit code commands about conversions end, and what they say then."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from modelmill_client import errors as client_errors
from rich.console import Console

from app.conversion import reproduction
from app.conversion.cli import canary, conversion, reproduce
from app.conversion.cli.service import stored_job
from app.conversion.client import ConversionClient
from app.conversion.reproduction import OutputComparison, Sameness
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import CommandFailed, Exit, exit_code
from app.kit.errors import NotFound
from app.kit.text.json_values import JsonObject
from tests.harness.command_line import typed

NOBODY = "http://127.0.0.1:1"
MonkeyPatch = pytest.MonkeyPatch
Captured = pytest.CaptureFixture[str]


def record_of(status: str, code: str = "") -> JsonObject:
    error = {"code": code, "step": "BIE", "reason": "why", "hint": ""} if code else None
    return {"job_id": "1" * 8, "status": status, "error": error}


@pytest.mark.parametrize(("code", "ending"), [("CANCELLED", Exit.CANCELLED), ("STAGE_FAILED", Exit.FAILED)])
def test_a_conversion_ends_as_its_job_does(
    monkeypatch: MonkeyPatch, capsys: Captured, tmp_path: Path, code: str, ending: Exit
) -> None:
    (tmp_path / "m.onnx").write_bytes(b"x")
    monkeypatch.setattr(conversion, "convert", lambda *_: record_of("FAILED", code))
    assert typed(monkeypatch, "convert", tmp_path / "m.onnx", tmp_path, "--json", "--url", NOBODY) == ending
    assert json.loads(capsys.readouterr().out) == {"job": record_of("FAILED", code), "files": {}}


NO_DISPLAY: Any = SimpleNamespace(show=lambda _: None)


def test_ctrl_c_cancels_the_job_that_was_submitted(monkeypatch: MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    cancelled: list[str] = []
    console = Console(quiet=True)
    monkeypatch.setattr(conversion, "make_display", lambda _: contextlib.nullcontext(NO_DISPLAY))
    client: Any = SimpleNamespace(cancel=cancelled.append, watch=interrupt)
    order: Any = SimpleNamespace(timeout_s=None)
    monkeypatch.setattr(conversion, "submit", lambda *_: record_of("ONNX"))
    with pytest.raises(CommandFailed) as ended:
        conversion.convert(client, order, console)
    assert (ended.value.code, cancelled) == (Exit.CANCELLED, ["1" * 8])
    monkeypatch.setattr(conversion, "submit", interrupt)
    with pytest.raises(CommandFailed) as ended:
        conversion.convert(client, order, console)
    assert (ended.value.code, len(cancelled)) == (Exit.CANCELLED, 1)


def test_a_job_that_the_service_forgets_while_it_is_watched_is_lost() -> None:
    def forget(*_: Any, **__: Any) -> Any:
        raise ApiError(client_errors.error_of(404, {"code": "JOB_NOT_FOUND", "message": "gone", "hint": "restarted"}))

    service: Any = SimpleNamespace(watch=forget)
    with pytest.raises(conversion.ConversionLost, match="gone") as lost:
        conversion.follow(service, record_of("BIE"), NO_DISPLAY, timeout_s=None)
    assert exit_code(lost.value) == Exit.FAILED and lost.value.hint == "restarted"


def test_a_reproduction_that_fails_ends_with_one(capsys: Captured) -> None:
    def no_log(*_: Any) -> Any:
        raise NotFound("no log")

    artifacts = {name: {"key": name} for name in reproduce.INPUTS}
    before = {**record_of("COMPLETED"), "artifacts": artifacts, "options": {}, "name": "m"}
    client: Any = SimpleNamespace(
        submit=lambda *_, **__: before, watch=lambda *_, **__: [record_of("FAILED", "X")], log=no_log
    )
    with pytest.raises(CommandFailed) as ended:
        reproduce._run_again(client, before, None)
    assert ended.value.code == Exit.FAILED
    assert "FAILED at BIE: why" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sameness", "ending"),
    [
        (Sameness.BYTES, Exit.OK),
        (Sameness.NORMALIZED, Exit.OK),
        (Sameness.DIFFERENT, Exit.FAILED),
        (Sameness.MISSING, Exit.FAILED),
    ],
)
def test_a_reproduction_ends_with_one_unless_the_same_came_out(
    monkeypatch: MonkeyPatch, capsys: Captured, sameness: Sameness, ending: Exit
) -> None:
    record = {**record_of("COMPLETED"), "stages": {}}
    monkeypatch.setattr(reproduce, "stored_job", lambda *_: record)
    monkeypatch.setattr(reproduce, "_run_again", lambda *_: record)
    monkeypatch.setattr(reproduction, "compare", lambda *_: [OutputComparison("out.nef", sameness, ("1", "2"))])
    assert typed(monkeypatch, "reproduce", "1", "--url", NOBODY) == ending
    assert reproduce.WORDS[sameness] in capsys.readouterr().out


@pytest.mark.parametrize(("status", "ending"), [("COMPLETED", Exit.OK), ("FAILED", Exit.BELOW)])
def test_a_canary_that_is_worse_ends_with_six(
    monkeypatch: MonkeyPatch, capsys: Captured, status: str, ending: Exit
) -> None:
    def watch(*_: Any, **__: Any) -> Iterator[JsonObject]:
        yield {**pinned, "status": status, "error": {"reason": "why"}}

    stage: JsonObject = {"summary": {}, "versions": {}, "started_at": None, "ended_at": None}
    pinned = {
        **record_of("COMPLETED"),
        "name": "m",
        "options": {},
        "tags": ["canary"],
        "artifacts": {name: {"key": name, "size_bytes": 1} for name in canary.INPUTS},
        "stages": {step: stage for step in ("onnx", "bie", "nef")},
    }
    monkeypatch.setattr(ConversionClient, "jobs", lambda *_, **__: [pinned])
    monkeypatch.setattr(ConversionClient, "submit", lambda *_, **__: pinned)
    monkeypatch.setattr(ConversionClient, "watch", watch)
    assert typed(monkeypatch, "canary", "--tag", "canary", "--json", "--url", NOBODY) == ending
    assert json.loads(capsys.readouterr().out)[0]["is_worse"] is (ending is Exit.BELOW)


@pytest.mark.parametrize("beginning", ["1", "0b0c0d0e-0000-4000-8000-000000000000"])
def test_a_job_that_the_archive_does_not_have_either_is_no_job_of_the_service(beginning: str) -> None:
    def refuse(_: str) -> Any:
        raise NotFound("no job here")

    def refuse_archived(_: str) -> Any:
        raise NotFound("no archived job here")

    service: Any = SimpleNamespace(jobs=lambda **_: [], job=refuse)
    archive: Any = SimpleNamespace(jobs=lambda **_: [], job=refuse_archived)
    with pytest.raises(NotFound) as refused:
        stored_job(service, archive, beginning)
    assert "archived" not in refused.value.message
