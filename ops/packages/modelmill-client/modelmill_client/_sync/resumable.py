# Made from _async by generate.py: change that.
"""Uploads that go on where they broke off: tus 1.0, for files that take a while."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import httpx

from modelmill_client import waits
from modelmill_client._sync.transport import OnBytes, Transport
from modelmill_client.errors import ApiError, ModelmillError, Unreachable

ROOT = "/uploads/resumable"
VERSION = {"Tus-Resumable": "1.0.0"}
KEY = "Upload-Key"
PIECE_BYTES = 64 << 20
"""Sent by one request."""
CHUNK_BYTES = 1 << 20


def send_file(transport: Transport, field: str, path: Path, on_bytes: OnBytes) -> str:
    """Send a file from disk, in constant memory; what broke off goes on from where the service has it.

    Args:
        transport: To the service.
        field: model or images.
        path: Of the file.
        on_bytes: Gets the number of bytes of each piece that is sent for the first time.

    Returns:
        Its key, to submit a job with.

    Raises:
        ApiError, Unreachable: It could not be sent, however often it was tried.
    """
    beginning, told, tries = _beginning(field, path), 0, 0
    location, offset, key, is_cut = "", 0, "", False
    while not key:
        stood = offset
        try:
            location = location or _begun(transport, beginning)
            if is_cut:
                offset, key = _stands(transport, location)
                is_cut = False
            if not key:
                offset, key = _sent(transport, location, path, offset)
            tries = 0
        except (ApiError, Unreachable) as error:
            tries = 1 if offset > stood else tries + 1
            if tries > transport.retries or not _can_go_on(error):
                raise
            is_cut = bool(location)
            time.sleep(waits.pause_s(tries, str(error.detail.get("retry_after_s", ""))))
        on_bytes(max(0, offset - told))
        told = max(told, offset)
    return key


def _beginning(field: str, path: Path) -> dict[str, str]:
    """The headers that begin an upload: with their key, a second try begins no second one."""
    metadata = ",".join(f"{key} {base64.b64encode(text.encode()).decode()}" for key, text in _named(field, path.name))
    length = str(path.stat().st_size)
    return {**VERSION, "Upload-Length": length, "Upload-Metadata": metadata, "Idempotency-Key": uuid4().hex}


def _begun(transport: Transport, headers: Mapping[str, str]) -> str:
    with transport.answer("POST", ROOT, headers=headers) as answer:
        answer.read()
        return httpx.URL(answer.headers["Location"]).path


def _named(field: str, name: str) -> list[tuple[str, str]]:
    return [("field", field), ("filename", name)]


def _sent(transport: Transport, location: str, path: Path, offset: int) -> tuple[int, str]:
    """A piece from there on: where the upload stands now, and its key once it is whole."""
    headers = {**VERSION, "Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    with transport.answer("PATCH", location, headers=headers, content=_chunks(path, offset)) as answer:
        answer.read()
        return _standing(answer)


def _stands(transport: Transport, location: str) -> tuple[int, str]:
    with transport.answer("HEAD", location, headers=VERSION) as answer:
        return _standing(answer)


def _standing(answer: httpx.Response) -> tuple[int, str]:
    return int(answer.headers["Upload-Offset"]), answer.headers.get(KEY, "")


def _chunks(path: Path, offset: int) -> Iterator[bytes]:
    left = PIECE_BYTES
    with path.open("rb") as file:
        file.seek(offset)
        while left > 0 and (chunk := file.read(min(CHUNK_BYTES, left))):
            left -= len(chunk)
            yield chunk


def _can_go_on(error: ModelmillError) -> bool:
    """Is it worth while to ask how far it came?"""
    return error.can_retry or error.code == "UPLOAD_OFFSET"
