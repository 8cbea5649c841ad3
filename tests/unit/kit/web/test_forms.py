"""The fields of a form, as an action of a page is given them."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from app.kit.web.forms import read_fields


def request_of(body: bytes, kind: str = "application/x-www-form-urlencoded") -> Request:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", kind.encode())]
    return Request({"type": "http", "method": "POST", "headers": headers, "path": "/", "query_string": b""}, receive)


def fields_of(request: Request) -> dict[str, str]:
    return asyncio.run(read_fields(request, most_bytes=1000, what="A text"))


def test_line_ends_are_those_of_unix() -> None:
    assert fields_of(request_of(b"text=a%0D%0Ab")) == {"text": "a\nb"}
    part = b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\na\r\nb\r\n--x--\r\n'
    assert fields_of(request_of(part, "multipart/form-data; boundary=x")) == {"text": "a\nb"}
