"""What an upload does whose service goes away for a while."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from modelmill_client import Unreachable
from modelmill_client._sync.resumable import send_file
from modelmill_client._sync.transport import Transport

from tests.harness.scripted_server import ScriptedServer

BUSY = {"error": {"code": "BUSY", "message": "why", "hint": "", "detail": {}, "can_retry": True}}
GONE = httpx.ConnectError("no service")


def begun() -> httpx.Response:
    return httpx.Response(201, headers={"Location": "/uploads/resumable/u1"})


def done() -> httpx.Response:
    return httpx.Response(204, headers={"Upload-Offset": "6", "Upload-Key": "uploads/u1/model.onnx"})


def send(server: ScriptedServer, path: Path) -> str:
    transport = Transport("http://mill", transport=httpx.MockTransport(server))
    return send_file(transport, "model", path, lambda _: None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "yolo.onnx"
    path.write_bytes(b"abcdef")
    return path


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr("modelmill_client._sync.resumable.time.sleep", taken.append)
    return taken


def test_a_service_that_is_busy_when_an_upload_begins_is_tried_again(model: Path, pauses: list[float]) -> None:
    busy = httpx.Response(503, json=BUSY, headers={"Retry-After": "7"})
    server = ScriptedServer(busy, begun(), done())
    assert send(server, model) == "uploads/u1/model.onnx"
    assert (server.methods, pauses) == (["POST", "POST", "PATCH"], [7.0])
    assert len({request.headers["idempotency-key"] for request in server.requests[:2]}) == 1


def test_a_service_that_is_still_away_when_it_is_asked_how_far_it_came_is_asked_again(
    model: Path, pauses: list[float]
) -> None:
    half = httpx.Response(200, headers={"Upload-Offset": "3"})
    server = ScriptedServer(begun(), httpx.WriteError("the line broke"), GONE, GONE, half, done())
    assert send(server, model) == "uploads/u1/model.onnx"
    assert server.methods == ["POST", "PATCH", "HEAD", "HEAD", "HEAD", "PATCH"]
    assert server.requests[-1].headers["upload-offset"] == "3" and server.requests[-1].content == b"def"
    assert len(pauses) == 3


def test_a_service_that_stays_away_is_given_up(model: Path, pauses: list[float]) -> None:
    server = ScriptedServer(begun(), GONE)
    with pytest.raises(Unreachable):
        send(server, model)
    assert (server.methods, len(pauses)) == (["POST", "PATCH", "HEAD", "HEAD", "HEAD"], 3)
