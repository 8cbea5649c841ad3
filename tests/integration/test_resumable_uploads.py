"""tus 1.0 against the running service: conformance, a line that breaks, whose uploads they are."""

from __future__ import annotations

import base64
import hashlib
import random
import socket
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from tests.harness.api import Api, code_of, pngs, small_model, store_of, zipped
from tests.harness.deployment import Deployment

ROOT = "/uploads/resumable"
TUS = {"Tus-Resumable": "1.0.0"}
PATCH = {**TUS, "Content-Type": "application/offset+octet-stream"}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
def http(service: Deployment) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60, trust_env=False) as client:
        yield client


def begin(http: httpx.Client, length: int, field: str = "images", name: str = "a.zip") -> str:
    metadata = f"field {b64(field.encode())},filename {b64(name.encode())}"
    answer = http.post(ROOT, headers={**TUS, "Upload-Length": str(length), "Upload-Metadata": metadata})
    assert answer.status_code == 201, answer.text
    assert (answer.headers["upload-offset"], answer.headers["tus-resumable"]) == ("0", "1.0.0")
    return answer.headers["location"]


def send(http: httpx.Client, at: str, offset: int, data: bytes, **headers: str) -> httpx.Response:
    return http.patch(at, content=data, headers={**PATCH, "Upload-Offset": str(offset), **headers})


def offset_of(http: httpx.Client, at: str) -> int:
    answer = http.head(at, headers=TUS)
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
    return int(answer.headers["upload-offset"])


def test_the_server_says_what_it_understands(http: httpx.Client) -> None:
    answer = http.options(ROOT)
    assert answer.status_code == 204
    assert answer.headers["tus-version"] == "1.0.0"
    assert answer.headers["tus-extension"] == "creation,termination,expiration,checksum"
    assert int(answer.headers["tus-max-size"]) > 0


def test_an_upload_in_pieces_becomes_a_job(http: httpx.Client, api: Api, service: Deployment) -> None:
    keys = {}
    for field, data in (("model", small_model()), ("images", zipped(pngs(3)))):
        at = begin(http, len(data), field)
        half = len(data) // 2
        first = send(http, at, 0, data[:half])
        assert (first.status_code, first.headers["upload-offset"]) == (204, str(half))
        assert "GMT" in first.headers["upload-expires"] and "upload-key" not in first.headers
        assert offset_of(http, at) == half
        last = send(http, at, half, data[half:])
        keys[field] = last.headers["upload-key"]
        assert http.head(at, headers=TUS).headers["upload-key"] == keys[field]
        assert b"".join(store_of(service).read(keys[field])) == data
    answer = http.post("/jobs", json={"model_key": keys["model"], "quant_key": keys["images"]})
    assert answer.status_code == 201, answer.text


def test_a_part_elsewhere_is_a_conflict(http: httpx.Client) -> None:
    at = begin(http, 10)
    assert code_of(send(http, at, 3, b"x")) == (409, "UPLOAD_OFFSET")
    assert send(http, at, 0, b"12345").status_code == 204
    assert code_of(send(http, at, 0, b"12345")) == (409, "UPLOAD_OFFSET")
    assert offset_of(http, at) == 5


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Tus-Resumable": "0.2.2"}, 412),
        ({"Content-Type": "application/octet-stream"}, 415),
        ({"Upload-Offset": "-1"}, 400),
        ({"Upload-Checksum": "md4 AAAA"}, 400),
        ({"Upload-Checksum": f"sha1 {b64(hashlib.sha1(b'other', usedforsecurity=False).digest())}"}, 460),
    ],
)
def test_a_part_that_is_not_as_the_protocol_has_it_is_refused(
    http: httpx.Client, headers: dict[str, str], status: int
) -> None:
    at = begin(http, 10)
    assert send(http, at, 0, b"12345", **headers).status_code == status
    assert offset_of(http, at) == 0


def test_what_was_ended_is_gone(http: httpx.Client) -> None:
    at = begin(http, 10)
    send(http, at, 0, b"12345")
    assert http.delete(at, headers=TUS).status_code == 204
    for answer in (http.head(at, headers=TUS), send(http, at, 5, b"1"), http.delete(at, headers=TUS)):
        assert answer.status_code == 404


def test_a_line_that_breaks_loses_nothing_that_came(http: httpx.Client, service: Deployment) -> None:
    """The first sender stalls, its line still open; the next asks how far it came, and goes on from there."""
    sent_bytes = 12 << 20
    """More than a connection holds that nobody reads: once it is sent, the service has begun to."""
    data = random.Random(7).randbytes(sent_bytes + 1)
    at = begin(http, len(data))
    head = (
        f"PATCH {at} HTTP/1.1\r\nHost: 127.0.0.1\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n"
        f"Content-Type: application/offset+octet-stream\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    with closing(socket.create_connection(("127.0.0.1", service.web_port))) as stalled:
        stalled.sendall(head.encode() + data[:sent_bytes])
        offset = offset_of(http, at)
    assert 0 < offset <= sent_bytes
    assert send(http, at, offset, data[offset:]).status_code == 204
    key = http.head(at, headers=TUS).headers["upload-key"]
    assert b"".join(store_of(service).read(key)) == data
