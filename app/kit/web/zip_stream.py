"""Many objects as one streaming zip: only the current chunk is kept in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from typing import IO, cast

from starlette.responses import Response, StreamingResponse

from app.kit.text.attachment import attachment

DATE = (2000, 1, 1, 0, 0, 0)
"""Constant, so that the same files make the same zip; not the earliest date, which marks numpy's .npz."""


class _Outbox:
    """The file object for zipfile: keeps the bytes until they are taken."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def write(self, data: bytes) -> int:
        self.chunks.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        taken, self.chunks = b"".join(self.chunks), []
        return taken


def zip_stream(members: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    """(name, bytes) of each member → the bytes of a zip that stores them uncompressed. Names must differ."""
    outbox = _Outbox()
    with zipfile.ZipFile(cast("IO[bytes]", outbox), "w", zipfile.ZIP_STORED) as packed:
        for name, chunks in members:
            with packed.open(zipfile.ZipInfo(name, DATE), "w", force_zip64=True) as member:
                for chunk in chunks:
                    member.write(chunk)
                    yield outbox.take()
    yield outbox.take()


def zip_answer(members: Iterable[tuple[str, Iterable[bytes]]], name: str) -> Response:
    """The zip as a download under this name, which browsers do not keep."""
    headers = {"Content-Disposition": attachment(name), "Cache-Control": "private, no-store"}
    return StreamingResponse(zip_stream(members), media_type="application/zip", headers=headers)
