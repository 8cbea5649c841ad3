"""What an agent makes of answers that are not those of a web server of its version."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from app.edge.agent.web_client import NO_BLOB, ApiError, Unreachable, WebClient
from app.nodes.model import Side
from tests.harness.http_server import respond, served
from tests.harness.ports import free_port

Call = Callable[[WebClient], Awaitable[object]]
OTHER = "is not Modelmill, or of another version"


def register(web: WebClient) -> Awaitable[str]:
    return web.register("edge0", Side.EDGE, replace=False, admin_token="")


def ask(web: WebClient) -> Awaitable[object]:
    return web.ask("/ask", b"", "text/plain", authorization="")


async def made(url: str, call: Call) -> object:
    web = WebClient(url, "edge0", "token")
    try:
        return await call(web)
    finally:
        await web.close()


def answered(status: int, answer: Any, call: Call) -> object:
    def answering(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        respond(handler, json.dumps(answer).encode(), status)

    with served(answering) as url:
        return asyncio.run(made(url, call))


@pytest.mark.parametrize(
    ("status", "answer", "call", "message"),
    [
        (200, {"token": 1}, register, OTHER),
        (200, {"token": ""}, register, OTHER),
        (200, ["token"], register, OTHER),
        (200, {"messages": "none"}, WebClient.messages, OTHER),
        (200, {"certificate": None}, lambda web: web.certify("a key"), OTHER),
        (200, {}, WebClient.authorities, OTHER),
        (404, {"error": {"code": "NOT_FOUND"}}, WebClient.check, OTHER),
        (302, {}, WebClient.messages, "answers HTTP 302 now"),
        (502, "a proxy", WebClient.messages, "answers HTTP 502 now"),
    ],
)
def test_what_is_no_answer_of_the_web_counts_as_none(status: int, answer: Any, call: Call, message: str) -> None:
    with pytest.raises(Unreachable, match=message):
        answered(status, answer, call)


def test_a_refusal_of_the_web_is_told_as_it_is() -> None:
    answered(404, {"error": {"code": NO_BLOB}}, WebClient.check)
    for status in (401, 500):
        with pytest.raises(ApiError) as refused:
            answered(status, {"error": {"code": "NO"}}, WebClient.check)
        assert refused.value.status == status


@pytest.mark.parametrize(
    ("call", "silent", "cut"),
    [(WebClient.messages, "Nothing answers at", "broke: "), (ask, "does not answer: ", "does not answer: ")],
)
def test_a_web_that_is_away_or_ends_within_its_answer_is_told(call: Call, silent: str, cut: str) -> None:
    begin = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"
    with served(lambda handler, _: handler.wfile.write(begin)) as url, pytest.raises(Unreachable, match=cut):
        asyncio.run(made(url, call))
    with pytest.raises(Unreachable, match=silent):
        asyncio.run(made(f"http://127.0.0.1:{free_port()}", call))
