"""The fields and parts of forms, and which forms are refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.requests import Request

from app.kit.errors import BadRequest, ModelmillError, TooLarge
from app.kit.web.forms import MAX_TEXT_BYTES, SLACK_BYTES, read_fields, receive_form, small_parts
from app.kit.web.multipart import NotMultipart

MULTIPART = "multipart/form-data; boundary=x"


def request_of(body: bytes, kind: str = "application/x-www-form-urlencoded", *, length: int | None = None) -> Request:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", kind.encode())]
    headers += [] if length is None else [(b"content-length", str(length).encode())]
    return Request({"type": "http", "method": "POST", "headers": headers, "path": "/", "query_string": b""}, receive)


def field(name: str, content: bytes) -> bytes:
    head = f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode()
    return head + content + b"\r\n--x--\r\n"


def fields_of(request: Request) -> dict[str, str]:
    return asyncio.run(read_fields(request, most_bytes=1000, what="A text"))


def test_line_ends_are_those_of_unix() -> None:
    assert fields_of(request_of(b"text=a%0D%0Ab")) == {"text": "a\nb"}
    assert fields_of(request_of(field("text", b"a\r\nb"), MULTIPART)) == {"text": "a\nb"}


@pytest.mark.parametrize("size", [6001, 7000])
def test_a_text_that_is_too_large_is_refused_however_it_is_sent(size: int) -> None:
    text = b"x" * size
    for request in (request_of(b"text=" + text), request_of(field("text", text), MULTIPART)):
        with pytest.raises(TooLarge, match="A text may have 1000 bytes here"):
            fields_of(request)


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (request_of(b"{}", "application/json"), NotMultipart, "multipart"),
        (request_of(field("other", b"x"), MULTIPART), BadRequest, "'other'"),
        (request_of(field("id", b"x" * 11), MULTIPART), TooLarge, "The part id may have 10 bytes"),
        (
            request_of(field("id", b"x"), MULTIPART, length=10 + SLACK_BYTES + 1),
            TooLarge,
            f"A body may have {10 + SLACK_BYTES} bytes here",
        ),
    ],
)
def test_parts_that_cannot_be_are_named(request_: Request, error: type[ModelmillError], words: str) -> None:
    with pytest.raises(error, match=words):
        asyncio.run(small_parts(request_, {"id": 10}, hint="Send an id."))


def received(request: Request, work: Path, most_bytes: int) -> dict[str, list[str]]:
    async def receive() -> dict[str, list[str]]:
        async with receive_form(request, work, max_bytes=most_bytes, too_large="Too many pictures.") as form:
            return form.fields

    return asyncio.run(receive())


def test_a_form_with_files_that_cannot_be_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    upload = field("a", b"b")
    assert received(request_of(upload, MULTIPART), tmp_path, 1000) == {"a": ["b"]}
    with pytest.raises(TooLarge, match="Too many pictures"):
        received(request_of(upload, MULTIPART), tmp_path, len(upload) - 1)
    with pytest.raises(TooLarge, match="The form is too large"):
        received(request_of(field("a", b"x" * (MAX_TEXT_BYTES + 1)), MULTIPART), tmp_path, 2 * MAX_TEXT_BYTES)
    with pytest.raises(BadRequest, match="The form names no boundary"):
        received(request_of(upload, "multipart/form-data"), tmp_path, 1000)
    assert list(tmp_path.iterdir()) == []
