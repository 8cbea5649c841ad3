"""Uploads that go on where they broke off: tus 1.0, for files that take a while."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from uuid import uuid4

import httpx

from modelmill_client import waits
from modelmill_client._async.transport import AsyncTransport, OnBytes
from modelmill_client.errors import ApiError, ModelmillError, Unreachable

ROOT = "/uploads/resumable"
VERSION = {"Tus-Resumable": "1.0.0"}
KEY = "Upload-Key"
PIECE_BYTES = 64 << 20
"""Sent by one request."""
CHUNK_BYTES = 1 << 20


async def send_file(transport: AsyncTransport, field: str, path: Path, on_bytes: OnBytes) -> str:
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
            location = location or await _begun(transport, beginning)
            if is_cut:
                offset, key = await _stands(transport, location)
                is_cut = False
            if not key:
                offset, key = await _sent(transport, location, path, offset)
            tries = 0
        except (ApiError, Unreachable) as error:
            tries = 1 if offset > stood else tries + 1
            if tries > transport.retries or not _can_go_on(error):
                raise
            is_cut = bool(location)
            await asyncio.sleep(waits.pause_s(tries, str(error.detail.get("retry_after_s", ""))))
        on_bytes(max(0, offset - told))
        told = max(told, offset)
    return key


def _beginning(field: str, path: Path) -> dict[str, str]:
    """The headers that begin an upload: with their key, a second try begins no second one."""
    metadata = ",".join(f"{key} {base64.b64encode(text.encode()).decode()}" for key, text in _named(field, path.name))
    length = str(path.stat().st_size)
    return {**VERSION, "Upload-Length": length, "Upload-Metadata": metadata, "Idempotency-Key": uuid4().hex}


async def _begun(transport: AsyncTransport, headers: Mapping[str, str]) -> str:
    async with transport.answer("POST", ROOT, headers=headers) as answer:
        await answer.aread()
        return httpx.URL(answer.headers["Location"]).path


def _named(field: str, name: str) -> list[tuple[str, str]]:
    return [("field", field), ("filename", name)]


async def _sent(transport: AsyncTransport, location: str, path: Path, offset: int) -> tuple[int, str]:
    """A piece from there on: where the upload stands now, and its key once it is whole."""
    headers = {**VERSION, "Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    async with transport.answer("PATCH", location, headers=headers, content=_chunks(path, offset)) as answer:
        await answer.aread()
        return _standing(answer)


async def _stands(transport: AsyncTransport, location: str) -> tuple[int, str]:
    async with transport.answer("HEAD", location, headers=VERSION) as answer:
        return _standing(answer)


def _standing(answer: httpx.Response) -> tuple[int, str]:
    return int(answer.headers["Upload-Offset"]), answer.headers.get(KEY, "")


async def _chunks(path: Path, offset: int) -> AsyncIterator[bytes]:
    left = PIECE_BYTES
    with path.open("rb") as file:
        file.seek(offset)
        while left > 0 and (chunk := file.read(min(CHUNK_BYTES, left))):
            left -= len(chunk)
            yield chunk


def _can_go_on(error: ModelmillError) -> bool:
    """Is it worth while to ask how far it came?"""
    return error.can_retry or error.code == "UPLOAD_OFFSET"
