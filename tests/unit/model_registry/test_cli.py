"""`modelmill models`: what it sends, what it prints, and what it refuses before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from app.kit.cli.command import Exit
from tests.harness.command_line import typed_in
from tests.harness.http_server import respond, served

typed = typed_in("models")
JOB = "0b0c0d0e-0000-4000-8000-000000000000"
MODEL = {
    "name": "faces",
    "version": 1,
    "note": "",
    "metrics": {},
    "format": "nef",
    "toolchain": "kneron",
    "created_at": "2026-11-01T12:00:00.000Z",
    "job_id": JOB,
    "size_bytes": 12345,
    "sha256": "a" * 64,
    "twin_size_bytes": 23456,
    "twin_sha256": "b" * 64,
    "decoder": "yunet",
    "labels": ["face"],
    "preprocess": {},
    "inputs": [{"name": "x", "shape": [1, 3, "h", "w"], "dtype": "float32"}],
    "outputs": [],
    "links": {},
}
BROUGHT = {**MODEL, "name": "big", "format": "onnx", "toolchain": "", "job_id": None, "twin_sha256": "", "labels": []}


class Service:
    """Has those two models; remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self.requests.append((request.command, request.path, body))
        place = urlsplit(request.path)
        status, answer = self._answer(request.command, parse_qs(place.query), place.path)
        data = json.dumps(answer).encode() if answer is not None else b""
        respond(request, data, status, headers={"Content-Type": "application/json"})

    def _answer(self, command: str, query: dict[str, list[str]], path: str) -> tuple[int, Any]:
        if command == "POST":
            return 201, MODEL
        if path.endswith("/models"):
            is_first = "cursor" not in query
            models = [] if query.get("q") == ["none"] else [MODEL] if is_first else [BROUGHT]
            return 200, {"models": models, "next_cursor": "2 big" if is_first and models else None}
        if path.endswith("/shared"):
            return 200, {"models": [{**MODEL, "name": "alice/faces", "owner": "alice", "tags": ["stable"]}]}
        if path.endswith("/access"):
            return 200, {"allowed": ["@lab", "bob"]}
        if query["name"] == ["faces"] and path.endswith(("/versions", "/tags/stable")):
            versions = [{**MODEL, "version": 2, "tags": [], "note": "new data"}, {**MODEL, "tags": ["stable"]}]
            versions[1]["metrics"] = {"snr_db": 29.54, "verdict": "PASSED"}
            answer = {"name": "faces", "newest": 2, "tags": {"stable": 1}, "versions": versions}
            return (204, None) if command == "DELETE" else (200, answer)
        if query["name"] != ["faces"]:
            return 404, {"error": {"code": "MODEL_NOT_FOUND", "message": "There is no model.", "hint": ""}}
        return (204, None) if command == "DELETE" else (200, MODEL)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def requests(service: Service) -> list[tuple[str, str, bytes]]:
    return service.requests


@pytest.fixture
def url(service: Service) -> Iterator[str]:
    with served(service.answer) as url:
        yield url


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"the bytes")
    return path


def test_the_list_has_every_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert typed(monkeypatch, "list", "--url", url) == Exit.OK
    printed = capsys.readouterr().out
    assert "kneron NEF" in printed and JOB in printed
    assert [word in printed for word in ("big", "ONNX", "brought")] == [True] * 3
    assert typed(monkeypatch, "list", "--json", "--limit", 1, "--url", url) == Exit.OK
    assert json.loads(capsys.readouterr().out) == [MODEL]


def test_an_empty_list_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert typed(monkeypatch, "list", "-q", "none", "--url", url) == Exit.OK
    assert capsys.readouterr().out == "No model has none in its name.\n"


def test_a_model_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert typed(monkeypatch, "show", "faces", "--url", url) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert "input     x 1x3xhxw float32" in lines and "labels    1: face" in lines
    assert f"twin      ONNX, 23456 bytes, {'b' * 64}" in lines
    assert typed(monkeypatch, "show", "cars", "--url", url) == Exit.NOT_FOUND


def test_a_model_of_a_job_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, url: str, requests: list[tuple[str, str, bytes]], tmp_path: Path
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("臉\nmask\n")
    arguments = ["faces", "--job", "some-id", "--artifact", "bie", "--decoder", "yunet", "--labels", labels]
    assert typed(monkeypatch, "add", *arguments, "--url", url) == Exit.OK
    ((method, path, body),) = requests
    assert (method, path) == ("POST", "/api/v2/models")
    assert json.loads(body) == {
        "name": "faces",
        "job_id": "some-id",
        "artifact": "bie",
        "decoder": "yunet",
        "labels": ["臉", "mask"],
    }


def test_a_file_is_sent_after_its_fields(
    monkeypatch: pytest.MonkeyPatch, url: str, requests: list[tuple[str, str, bytes]], model: Path
) -> None:
    assert typed(monkeypatch, "add", "big", "--file", model, "--url", url) == Exit.OK
    body = requests[0][2]
    assert 0 < body.index(b'name="name"') < body.index(b'name="model"; filename="m.onnx"') < body.index(b"the bytes")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["m"], Exit.BAD_INPUT),
        (["m", "--job", "j", "--file", "m.onnx"], Exit.BAD_INPUT),
        (["m", "--job", "j", "--artifact", "exe"], Exit.BAD_INPUT),
        (["m", "--file", "/no/such.onnx"], Exit.NOT_FOUND),
        (["m", "--job", "j", "--labels", "/no/such.txt"], Exit.NOT_FOUND),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str,
    arguments: list[str],
    code: Exit,
    requests: list[tuple[str, str, bytes]],
) -> None:
    assert typed(monkeypatch, "add", *arguments, "--url", url) == code
    assert not requests and capsys.readouterr().err


def test_labels_that_are_no_text_are_refused(
    monkeypatch: pytest.MonkeyPatch, url: str, requests: list[tuple[str, str, bytes]], tmp_path: Path
) -> None:
    (tmp_path / "labels").write_bytes(b"\xff\xfe\x00")
    assert typed(monkeypatch, "add", "m", "--job", "j", "--labels", tmp_path / "labels", "--url", url) == Exit.BAD_INPUT
    assert not requests


def test_a_model_is_removed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str,
    requests: list[tuple[str, str, bytes]],
) -> None:
    assert typed(monkeypatch, "remove", "faces", "--url", url) == Exit.OK
    assert capsys.readouterr().out == "faces is removed.\n"
    assert requests[0][:2] == ("DELETE", "/api/v2/models/named?name=faces")
    assert typed(monkeypatch, "remove", "my cars/out.nef", "--url", url) == Exit.NOT_FOUND


def test_versions_are_listed_with_their_tags(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    assert typed(monkeypatch, "versions", "faces", "--url", url) == Exit.OK
    printed = capsys.readouterr().out
    for word in ("version", "stable", "aaaaaaaaaaaa", "new data", "29.5 dB, PASSED"):
        assert word in printed
    assert typed(monkeypatch, "versions", "faces", "--json", "--url", url) == Exit.OK
    assert json.loads(capsys.readouterr().out)["tags"] == {"stable": 1}


def test_a_tag_is_set_and_removed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str,
    requests: list[tuple[str, str, bytes]],
) -> None:
    assert typed(monkeypatch, "tag", "faces", "stable", 1, "--url", url) == Exit.OK
    assert typed(monkeypatch, "untag", "faces", "stable", "--url", url) == Exit.OK
    assert capsys.readouterr().out == "faces@stable is version 1.\nfaces has no tag stable.\n"
    path = "/api/v2/models/tags/stable?name=faces"
    assert [request[:2] for request in requests] == [("PUT", path), ("DELETE", path)]
    assert json.loads(requests[0][2]) == {"version": 1}


def test_a_decoder_for_a_registered_model_is_sent(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str,
    requests: list[tuple[str, str, bytes]],
    tmp_path: Path,
) -> None:
    """What looks like a file and is none is a mistake, and not the name of a model."""
    file = tmp_path / "plates.py"
    file.write_text("def decode(*_): ...\n")
    assert typed(monkeypatch, "set-decoder", "faces@stable", file, "--note", "rows", "--url", url) == Exit.OK
    ((method, path, body),) = requests
    assert (method, path) == ("POST", "/api/v2/models/decoder?name=faces%40stable")
    assert json.loads(body) == {"source": "def decode(*_): ...\n", "note": "rows"}
    assert capsys.readouterr().out == f"Version 1 of faces is read by {file}.\n"
    assert typed(monkeypatch, "set-decoder", tmp_path / "missing.onnx", file, "--url", url) != Exit.OK
    file.write_text("def decode(:\n")
    assert typed(monkeypatch, "set-decoder", "faces@stable", file, "--url", url) == Exit.BAD_INPUT
    assert f"{file} is not valid Python: invalid syntax in line 1" in capsys.readouterr().err
    assert len(requests) == 1


def test_who_may_use_a_model_is_set_and_shown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str,
    requests: list[tuple[str, str, bytes]],
) -> None:
    for options in (["bob", "@lab"], ["--everybody"], ["--nobody"], []):
        assert typed(monkeypatch, "allow", "faces", *options, "--url", url) == Exit.OK
    path = "/api/v2/models/access?name=faces"
    assert [request[:2] for request in requests] == [*[("PUT", path)] * 3, ("GET", path)]
    assert [json.loads(request[2])["allowed"] for request in requests[:3]] == [["bob", "@lab"], None, []]
    assert capsys.readouterr().out.splitlines()[-1] == "faces: @lab bob"
    assert typed(monkeypatch, "allow", "faces", "bob", "--nobody", "--url", url) != Exit.OK


def test_models_of_others_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    assert typed(monkeypatch, "shared", "--url", url) == Exit.OK
    listed = capsys.readouterr().out
    assert "alice/faces" in listed and "stable" in listed


def test_a_next_version_is_asked_for_with_its_note(
    monkeypatch: pytest.MonkeyPatch, url: str, requests: list[tuple[str, str, bytes]], model: Path
) -> None:
    more = ["--new-version", "--note", "new data"]
    assert typed(monkeypatch, "add", "faces", "--job", "j", *more, "--url", url) == Exit.OK
    assert typed(monkeypatch, "add", "faces", "--file", model, *more, "--url", url) == Exit.OK
    body = json.loads(requests[0][2])
    assert (body["new_version"], body["note"]) == (True, "new data")
    assert b'name="new_version"\r\n\r\ntrue' in requests[1][2] and b"new data" in requests[1][2]
