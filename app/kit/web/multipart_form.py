"""Reads a page's form: text fields, and files spooled to disk. For browsers without JavaScript; the script uploads
to /uploads, which streams into the store.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from app.kit.errors import BadRequest, TooLarge
from app.kit.web.multipart import MAX_PARTS, plain_name
from app.kit.web.request_body import whole_body

MAX_TEXT_BYTES = 1 << 20
READ_BYTES = 1 << 20


@dataclass(frozen=True)
class SentFile:
    """A file of a form, which lies in a folder of ours."""

    name: str
    """As the browser gave it, without folders."""
    path: Path

    def chunks(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            while chunk := file.read(READ_BYTES):
                yield chunk


@dataclass
class SentForm:
    fields: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, list[SentFile]] = field(default_factory=dict)


@asynccontextmanager
async def sent_form(request: Request, work: Path, *, max_bytes: int) -> AsyncIterator[SentForm]:
    """Fields and files; the files are gone afterwards.

    Args:
        request: with a multipart form.
        work: folder where the files are meanwhile.
        max_bytes: of the whole body.

    Raises:
        BadRequest, TooLarge
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != "multipart/form-data":
        body = await whole_body(request, MAX_TEXT_BYTES, "A form")
        yield SentForm(parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True))
        return
    await run_in_threadpool(work.mkdir, mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="form-", dir=work))
    try:
        yield await _Reader(folder, max_bytes).read(request, options.get("boundary", ""))
    finally:
        await run_in_threadpool(shutil.rmtree, folder, ignore_errors=True)


class _Reader:
    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.left_bytes = max_bytes
        self.left_text = MAX_TEXT_BYTES
        self.sent = SentForm()
        self.count = 0
        self.text: bytearray | None = None
        self.file: BinaryIO | None = None

    async def read(self, request: Request, boundary: str) -> SentForm:
        try:
            parser = PushMultipartParser(boundary, max_segment_count=MAX_PARTS)
            async for chunk in request.stream():
                self._count(len(chunk))
                await run_in_threadpool(self._take, parser, chunk)
            if not parser.closed:
                raise BadRequest("The form ended early.", hint="Send it again.")
        except MultipartError as error:
            raise BadRequest(f"This is no valid form: {error}") from None
        finally:
            self._end()
        return self.sent

    def _count(self, size: int) -> None:
        self.left_bytes -= size
        if self.left_bytes < 0:
            raise TooLarge("The files are larger than is accepted here.")

    def _take(self, parser: PushMultipartParser, chunk: bytes) -> None:
        for event in parser.parse(chunk):
            if isinstance(event, MultipartSegment):
                self._begin(event)
            elif event is None:
                self._end()
            elif self.file is not None:
                self.file.write(event)
            elif self.text is not None:
                self._add_text(bytes(event))

    def _add_text(self, data: bytes) -> None:
        self.left_text -= len(data)
        if self.left_text < 0 or self.text is None:
            raise TooLarge("The form is too large.")
        self.text += data

    def _begin(self, part: MultipartSegment) -> None:
        self._end()
        self.name = str(part.name)
        if part.filename is None:
            self.text = bytearray()
        elif part.filename:  # an empty name: no file was chosen
            path = self.folder / str(self.count)
            self.count += 1
            self.file = path.open("wb")
            self.sent.files.setdefault(self.name, []).append(SentFile(plain_name(part.filename), path))

    def _end(self) -> None:
        if self.text is not None:
            self.sent.fields.setdefault(self.name, []).append(self.text.decode("utf-8", "replace"))
        if self.file is not None:
            self.file.close()
        self.text = self.file = None
