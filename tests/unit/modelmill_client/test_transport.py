"""What is tried again, under which key, and which exception an answer becomes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from modelmill_client import (
    ApiError,
    AsyncModelmill,
    BadInput,
    BadUrl,
    JobNotFound,
    Modelmill,
    NotFound,
    TooManyJobs,
    Unauthorized,
    Unreachable,
    waits,
)

from tests.harness.ports import free_port
from tests.harness.scripted_server import ScriptedServer

JOB = {"job_id": "1", "status": "ONNX", "name": "yolo"}


class Server(ScriptedServer):
    def client(self, **options: int) -> Modelmill:
        return Modelmill("http://mill", "mm_1_x", transport=httpx.MockTransport(self), **options)


def refusal(status: int, code: str, *, can_retry: bool = False, **headers: str) -> httpx.Response:
    error = {"code": code, "message": "why", "hint": "what to do", "detail": {"a": 1}, "can_retry": can_retry}
    return httpx.Response(status, json={"error": error}, headers=headers)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr("modelmill_client._sync.transport.time.sleep", taken.append)
    return taken


def test_what_creates_is_tried_again_under_one_key(pauses: list[float]) -> None:
    server = Server(
        httpx.ReadError("broke"), refusal(503, "UNAVAILABLE", can_retry=True), httpx.Response(201, json=JOB)
    )
    job = server.client().submit("a", "b")
    assert job.id == "1"
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    assert pauses == [0.5, 1.0]


def test_another_job_has_another_key() -> None:
    server = Server(httpx.Response(201, json=JOB))
    client = server.client()
    client.submit("a", "b")
    client.submit("a", "b")
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 2


def test_the_service_says_when_to_come_again(pauses: list[float]) -> None:
    busy = refusal(429, "TOO_MANY_JOBS", can_retry=True, **{"Retry-After": "7"})
    server = Server(busy, httpx.Response(200, json=JOB))
    assert server.client().job("1").status == "ONNX"
    assert pauses == [7.0]


def test_an_upload_is_sent_anew_with_all_of_its_bytes(pauses: list[float], tmp_path: Path) -> None:
    model, images = tmp_path / "m.onnx", tmp_path / "i.zip"
    model.write_bytes(b"M" * 1000)
    (tmp_path / "m.onnx.data").write_bytes(b"W" * 10)
    images.write_bytes(b"I" * 10)
    keys = {"model_key": "a", "quant_key": "b"}
    server = Server(refusal(503, "UNAVAILABLE", can_retry=True), httpx.Response(201, json=keys))
    assert server.client().upload(model, images) == keys
    for request in server.requests:
        assert b"M" * 1000 in request.content
        assert b'name="weights"; filename="m.onnx.data"' in request.content


def test_it_is_given_up_after_so_many_tries(pauses: list[float]) -> None:
    server = Server(httpx.ConnectError("refused"))
    with pytest.raises(Unreachable, match="nothing answers at http://mill"):
        server.client(retries=2).job("1")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "JOB_NOT_FOUND", JobNotFound),
        (404, "ANYTHING", NotFound),
        (422, "MODEL_INVALID", BadInput),
        (429, "TOO_MANY_JOBS", TooManyJobs),
        (401, "UNAUTHORIZED", Unauthorized),
        (418, "TEAPOT", ApiError),
    ],
)
def test_an_error_is_of_the_class_of_its_code(status: int, code: str, kind: type[ApiError]) -> None:
    with pytest.raises(kind) as raised:
        Server(refusal(status, code)).client().job("1")
    error = raised.value
    assert (type(error), error.code, error.hint, error.detail) == (kind, code, "what to do", {"a": 1})


@pytest.mark.parametrize("answer", [httpx.Response(200, text="<html>"), httpx.Response(500, text="oh no")])
def test_what_is_not_modelmill_is_said_so_at_once(answer: httpx.Response) -> None:
    server = Server(answer)
    with pytest.raises(Unreachable, match="is not Modelmill"):
        server.client().job("1")
    assert len(server.requests) == 1


def test_message_and_hint_are_two_sentences() -> None:
    assert str(BadUrl("x is no address", hint="It should look like y.")) == "x is no address. It should look like y."
    assert str(BadUrl("That is no address.", hint="Check it.")) == "That is no address. Check it."
    assert str(BadUrl("x is no address")) == "x is no address"


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_whose_service_is_starting_is_asked_again(pauses: list[float], status: int) -> None:
    away = httpx.Response(status, text="<html>bad gateway", headers={"Retry-After": "2"})
    server = Server(away, httpx.Response(200, json=JOB))
    assert server.client().job("1").status == "ONNX"
    assert pauses == [2.0]
    with pytest.raises(Unreachable, match=f"a proxy at http://mill does not reach the service: HTTP {status}"):
        Server(away).client(retries=1).job("1")


def test_a_deletion_whose_answer_was_lost_is_done(pauses: list[float]) -> None:
    server = Server(httpx.Response(200, json=JOB), httpx.ReadError("broke"), refusal(404, "JOB_NOT_FOUND"))
    server.client().job("1").delete()
    assert [request.method for request in server.requests] == ["GET", "DELETE", "DELETE"]
    server = Server(httpx.Response(200, json=JOB), refusal(404, "JOB_NOT_FOUND"))
    with pytest.raises(JobNotFound):
        server.client().job("1").delete()


def test_an_empty_id_is_said_and_one_with_a_slash_or_a_question_mark_stays_one() -> None:
    server = Server(httpx.Response(200, json=JOB))
    client = server.client()
    for call in (client.job, client.archived, client.sweep_table):
        with pytest.raises(BadInput, match="an id is empty"):
            call("")
    assert not server.requests
    client.job("../a?b#c")
    assert server.requests[0].url.raw_path == b"/jobs/..%2Fa%3Fb%23c"


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_is_said_and_nothing_is_sent(number: float) -> None:
    server = Server(httpx.Response(200, json=JOB))
    with pytest.raises(BadInput, match="infinite or NaN"):
        server.client().transport.json("PUT", "/jobs/1", json={"parts": [1.0, {"delay": number}]})
    assert not server.requests


@pytest.mark.parametrize("url", ["ftp://x", "http://[", "nonsense"])
def test_what_is_no_address_is_said_so(url: str) -> None:
    with pytest.raises(BadUrl):
        Modelmill(url).job("1")


@pytest.mark.parametrize("token", ["mm_é", "mm_a\nmm_b", "mm_a mm_b"])
def test_what_is_no_token_is_said_so(token: str) -> None:
    with pytest.raises(Unauthorized, match="no token has"):
        Modelmill(token=token)


def test_address_and_token_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMILL_URL", "http://mill:1234")
    monkeypatch.setenv("MODELMILL_TOKEN", "mm_2_y\n")
    server = Server(httpx.Response(200, json=JOB))
    Modelmill(transport=httpx.MockTransport(server)).job("1")
    assert str(server.requests[0].url) == "http://mill:1234/jobs/1"
    assert server.requests[0].headers["authorization"] == "Bearer mm_2_y"


def test_a_service_elsewhere_is_reached_by_a_socks_proxy(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """httpx knows SOCKS by an extra only, and raises an ImportError without it."""
    monkeypatch.setenv("ALL_PROXY", f"socks5://127.0.0.1:{free_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(Unreachable, match=r"mill\.example\.org"):
        Modelmill("http://mill.example.org").job("1")


def test_lists_go_on_over_the_pages() -> None:
    pages = [{"jobs": [JOB, JOB], "next_cursor": "n"}, {"jobs": [JOB], "next_cursor": None}]
    server = Server(*(httpx.Response(200, json=page) for page in pages))
    assert len(list(server.client().jobs(limit=10, status="ONNX"))) == 3
    assert dict(server.requests[1].url.params) == {"status": "ONNX", "limit": "8", "cursor": "n"}


def test_the_one_to_be_awaited_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "FIRST_PAUSE_S", 0.0)
    server = Server(httpx.ReadError("broke"), httpx.Response(200, json=JOB))

    async def answer(request: httpx.Request) -> httpx.Response:
        return server(request)

    async def ask() -> str:
        async with AsyncModelmill("http://mill", transport=httpx.MockTransport(answer)) as client:
            return (await client.job("1")).name

    assert asyncio.run(ask()) == "yolo"
    assert len(server.requests) == 2
