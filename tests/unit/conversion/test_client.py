"""The client against a small real HTTP server that misbehaves where a network would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import pytest
from modelmill_client import waits

from app.conversion.cli.service import job_of
from app.conversion.client import ConversionClient
from app.kit.cli.api_client import ApiError, WaitedEnough
from app.kit.cli.command import Exit, Unreachable, exit_code
from app.kit.errors import BadRequest, NotFound
from tests.harness.http_server import served

ID = "0b0c0d0e-0000-4000-8000-000000000000"
Answer = Callable[[BaseHTTPRequestHandler], None]


def frame(event: str, data: dict) -> bytes:
    return f": ping\r\nevent: {event}\r\ndata: {json.dumps(data)}\r\n\r\n".encode()


def state(status: str) -> dict:
    return {"job_id": ID, "status": status}


def send(status: int, body: bytes, kind: str = "application/json") -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def stream(*frames: bytes) -> Answer:
    """A stream that breaks off after these: a chunked body without its end."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for one in frames:
            handler.wfile.write(f"{len(one):x}\r\n".encode() + one + b"\r\n")

    return answer


@pytest.fixture
def server() -> Iterator[SimpleNamespace]:
    """answers: what is given to each request, in turn; the last one for ever. seen: (method, path, body)."""
    told = SimpleNamespace(answers=[], seen=[])

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> None:
        told.seen.append((request.command, request.path, body))
        request.close_connection = True
        (told.answers.pop(0) if len(told.answers) > 1 else told.answers[0])(request)

    with served(answer, protocol="HTTP/1.1") as told.url:
        yield told


@pytest.fixture
def client(server, monkeypatch) -> Iterator[ConversionClient]:
    monkeypatch.setattr(waits, "POLL_S", 0.01)
    with ConversionClient(server.url) as made:
        yield made


def seen(records) -> list[str]:
    return [record["status"] for record in records]


def test_a_stream_is_followed_to_its_end(server, client):
    server.answers = [
        stream(frame("status", state("ONNX")), frame("status", state("BIE")), frame("done", state("FAILED")))
    ]
    assert seen(client.watch(ID)) == ["ONNX", "BIE", "FAILED"]


def test_a_stream_that_breaks_off_is_taken_up_again(server, client):
    server.answers = [stream(frame("status", state("ONNX"))), stream(frame("done", state("COMPLETED")))]
    assert seen(client.watch(ID)) == ["ONNX", "COMPLETED"]


def test_where_no_stream_comes_through_the_record_is_asked_for(server, client):
    html = send(200, b"<html>", "text/html")
    server.answers = [html, *(send(200, json.dumps(state(s)).encode()) for s in ("BIE", "NEF", "COMPLETED"))]
    assert seen(client.watch(ID)) == ["BIE", "NEF", "COMPLETED"]
    assert [path for _, path, _ in server.seen][1:] == [f"/jobs/{ID}"] * 3


def test_a_service_that_is_away_for_a_moment_is_waited_for(server, client):
    def hang_up(handler: BaseHTTPRequestHandler) -> None:
        handler.connection.shutdown(2)

    server.answers = [
        stream(frame("status", state("BIE"))),
        hang_up,
        hang_up,
        stream(frame("done", state("COMPLETED"))),
    ]
    assert seen(client.watch(ID)) == ["BIE", "COMPLETED"]


def test_a_service_that_stays_away_is_given_up_on(server, client, monkeypatch):
    monkeypatch.setattr(waits, "PATIENCE_S", 0)
    server.answers = [lambda handler: handler.connection.shutdown(2)]
    with pytest.raises(Unreachable):
        list(client.watch(ID))


def test_a_record_that_is_gone_ends_the_waiting(server, client):
    error = {"error": {"code": "JOB_NOT_FOUND", "message": "The system was restarted.", "hint": "Submit again."}}
    server.answers = [stream(frame("status", state("BIE")), frame("gone", error))]
    with pytest.raises(ApiError, match="restarted") as raised:
        list(client.watch(ID))
    assert (raised.value.code, exit_code(raised.value)) == ("JOB_NOT_FOUND", Exit.NOT_FOUND)


def test_waiting_ends_when_the_given_time_is_over(server, client):
    server.answers = [stream(frame("status", state("BIE")))]
    with pytest.raises(WaitedEnough):
        list(client.watch(ID, timeout_s=0.05))


@pytest.mark.parametrize(
    ("status", "code"), [(404, Exit.NOT_FOUND), (422, Exit.BAD_INPUT), (409, Exit.BAD_INPUT), (500, Exit.FAILED)]
)
def test_a_refusal_keeps_its_code_and_decides_the_exit_code(server, client, status, code):
    body = {"error": {"code": "SOME_CODE", "message": "why", "hint": "what to do", "detail": {"a": 1}}}
    server.answers = [send(status, json.dumps(body).encode())]
    with pytest.raises(ApiError, match="why") as raised:
        client.job(ID)
    assert (raised.value.code, raised.value.hint, exit_code(raised.value)) == ("SOME_CODE", "what to do", code)


def test_something_else_that_answers_there_is_said_so(server, client):
    server.answers = [send(200, b"<html>hello</html>", "text/html")]
    with pytest.raises(Unreachable, match="is not Modelmill"):
        client.job(ID)


def test_an_upload_is_counted_and_arrives_whole(server, client, tmp_path):
    model, images = tmp_path / "m.onnx", tmp_path / "i.zip"
    model.write_bytes(b"M" * 200_000)
    images.write_bytes(b"I" * 10)
    server.answers = [send(201, b'{"model_key": "a", "quant_key": "b"}')]
    pieces: list[int] = []

    client.upload(model, images, pieces.append)

    assert sum(pieces) == 200_010
    assert max(pieces) < 100_000
    body = server.seen[0][2]
    assert b'name="model"; filename="m.onnx"' in body
    assert b"M" * 200_000 in body


def test_a_download_is_checked_against_its_sha256(server, client, tmp_path):
    server.answers = [send(200, b"content")]
    good = {"name": "out.nef", "sha256": hashlib.sha256(b"content").hexdigest()}

    assert client.download(ID, good, tmp_path).read_bytes() == b"content"
    with pytest.raises(Unreachable, match="damaged"):
        client.download(ID, {"name": "out.bie", "sha256": "0" * 64}, tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["out.nef"]


def test_a_name_from_the_service_cannot_leave_the_folder(server, client, tmp_path):
    server.answers = [send(200, b"content")]
    evil = {"name": "../evil", "sha256": hashlib.sha256(b"content").hexdigest()}
    assert client.download(ID, evil, tmp_path) == tmp_path / "evil"


def page(*ids: str, cursor: str | None = None) -> Answer:
    return send(200, json.dumps({"jobs": [{"job_id": one} for one in ids], "next_cursor": cursor}).encode())


def test_listing_goes_on_over_the_pages(server, client):
    server.answers = [page("a", "b", cursor="next"), page("c")]
    assert [record["job_id"] for record in client.jobs(limit=10)] == ["a", "b", "c"]
    assert "cursor=next" in server.seen[1][1]


def test_a_job_may_be_named_by_the_beginning_of_its_id(server, client):
    server.answers = [page("0b0c-other-mention", ID)]
    assert job_of(client, "0B0C0D")["job_id"] == ID


def test_a_beginning_that_fits_several_jobs_is_refused(server, client):
    server.answers = [page("0b1", "0b2")]
    with pytest.raises(BadRequest, match="0b fits 2 jobs: 0b1, 0b2"):
        job_of(client, "0b")


def test_an_empty_id_means_no_job_even_if_there_is_only_one(server, client):
    server.answers = [page("0b1")]
    with pytest.raises(BadRequest, match="the id of the job is empty"):
        job_of(client, "")


def test_a_beginning_that_fits_no_job_is_not_found(server, client):
    server.answers = [page()]
    with pytest.raises(NotFound):
        job_of(client, "0b")
