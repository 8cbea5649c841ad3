"""What a host's answer means to a runner."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler

import pytest

from app.edge.video.runner.stage_client import HostAway, HostNotReady, StageClient, StageFailed
from app.edge.video.stage_host.errors import NoDecoder, StageDied, StageHung, StagePaused
from app.kit.errors import ModelmillError
from app.video.model.job import StageHost
from app.video.model.stage_call import Call, KeyframeNeeded, PictureNotKept
from tests.harness.http_server import respond, served
from tests.harness.ports import free_port

CALL = Call("detect")


def host(url: str) -> StageHost:
    return StageHost("cloud-1", "cloud", "127.0.0.1", url, "s")


def error(code: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": "the reason"}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (409, error(KeyframeNeeded.code), KeyframeNeeded, "the reason"),
        (409, error(PictureNotKept.code), PictureNotKept, "the reason"),
        (400, error(NoDecoder.code), NoDecoder, "the reason"),
        *(
            (status, error("OTHER"), HostNotReady, f"cloud-1 answered {status}: the reason")
            for status in (401, 404, 503)
        ),
        *(
            (503, error(code), StageFailed, "cloud-1 answered 503: the reason")
            for code in (StageHung.code, StageDied.code, StagePaused.code)
        ),
        (500, error("OTHER"), StageFailed, "cloud-1 answered 500: the reason"),
        (500, b'{"status": 1, "error": "the reason"}', StageFailed, "cloud-1 answered 500: the reason"),
        (500, b"{}", StageFailed, "cloud-1 answered 500: no reason was given"),
        (200, b"<html>", StageFailed, "cloud-1 answered 200 with no JSON object"),
        (502, b"[]", StageFailed, "cloud-1 answered 502 with no JSON object"),
    ],
)
def test_each_refusal_is_told_from_the_others(status: int, body: bytes, kind: type[Exception], message: str) -> None:
    with served(lambda handler, _: respond(handler, body, status)) as url, pytest.raises(kind) as raised:
        StageClient().call(host(url), CALL, 5)
    shown = raised.value.message if isinstance(raised.value, ModelmillError) else str(raised.value)
    assert shown == message


@pytest.mark.parametrize(("status", "is_good"), [(200, True), (404, True), (503, False)])
def test_a_model_that_a_host_cannot_open_is_a_failure_and_an_older_host_is_left_alone(
    status: int, is_good: bool
) -> None:
    with served(lambda handler, _: respond(handler, b"no memory", status)) as url:
        if is_good:
            StageClient().prepare(host(url), "job", "detect", 0, 5)
        else:
            with pytest.raises(StageFailed, match="cloud-1 answered 503: no memory"):
                StageClient().prepare(host(url), "job", "detect", 0, 5)


def test_a_host_that_is_not_there_is_away() -> None:
    at = host(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(HostAway, match="cannot be reached") as raised:
        StageClient().call(at, CALL, 5)
    assert not raised.value.was_slow and not StageClient().is_there(at)


def test_a_host_that_is_encrypted_is_away_for_a_node_without_a_certificate() -> None:
    with pytest.raises(HostAway, match="this node has no certificate"):
        StageClient().call(host(f"https://127.0.0.1:{free_port()}"), CALL, 5)


def test_a_host_that_gives_no_answer_in_time_was_slow() -> None:
    def hesitate(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        time.sleep(0.5)
        respond(handler, b"{}")

    with served(hesitate) as url, pytest.raises(HostAway, match=r"did not answer within 0\.1 s") as raised:
        StageClient().call(host(url), CALL, 0.1)
    assert raised.value.was_slow


def test_a_host_that_closes_without_an_answer_is_away() -> None:
    with served(lambda handler, _: None) as url, pytest.raises(HostAway, match="cannot be reached"):
        StageClient().call(host(url), CALL, 5)


def test_a_kept_connection_that_the_host_has_closed_is_replaced() -> None:
    """The first answer keeps its connection, and the server has ended it when the second call comes."""

    def answer(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        respond(handler, b"{}")
        handler.close_connection = True

    client = StageClient()
    with served(answer, protocol="HTTP/1.1") as url:
        for _ in range(2):
            assert client.call(host(url), CALL, 5).outputs == {}
    client.close()
