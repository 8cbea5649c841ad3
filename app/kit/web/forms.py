"""Reads the forms of requests: their parts as they arrive, small fields in memory, or files spooled to disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs

from multipart import MultipartSegment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from app.kit.errors import BadRequest, TooLarge
from app.kit.web.multipart import MultipartReader, Part, PartCollector, Piece, boundary_of, plain_name
from app.kit.web.request_body import read_whole_body

FILE, TEXT = "file", "text"
HINT = "Data belongs into files."
ENCODED = 6
"""How much longer than its text a whole form may be: url-encoding turns one byte into three."""
SLACK_BYTES = 64 << 10
"""Reserve for the lines between the parts of a body."""
MAX_TEXT_BYTES = 1 << 20
READ_BYTES = 1 << 20


def boundary_of_request(request: Request) -> str | None:
    return boundary_of(request.headers.get("content-type", ""))


def multipart_pieces(request: Request, *, hint: str) -> AsyncIterator[Piece]:
    """Yields the parts of the body as they arrive.

    Args:
        request: a request with a multipart body.
        hint: how such a body is sent here.

    Raises:
        NotMultipart: Raised at once.
        BadRequest: The body is damaged.
    """
    reader = MultipartReader(boundary_of_request(request), hint=hint)

    async def pieces() -> AsyncIterator[Piece]:
        async for chunk in request.stream():  # the last one is empty: nothing follows
            for piece in reader.feed(chunk):
                yield piece

    return pieces()


async def small_parts(request: Request, most_bytes: Mapping[str, int], *, hint: str) -> dict[str, Part]:
    """Returns the parts of a multipart body, in memory.

    Args:
        request: the request.
        most_bytes: the allowed parts by name, and how large each may be.
        hint: how such a body is sent here.

    Raises:
        NotMultipart: The body has another type.
        BadRequest: It is damaged, or has a part that is not expected.
        TooLarge: It, or a part, exceeds its limit.
    """
    most = sum(most_bytes.values()) + SLACK_BYTES
    if int(request.headers.get("content-length") or 0) > most:
        raise TooLarge(f"A body may have {most} bytes here.")
    collector = PartCollector(most_bytes, hint=hint)
    async for piece in multipart_pieces(request, hint=hint):
        collector.take(piece)
    return collector.parts


async def read_fields(request: Request, *, most_bytes: int, what: str) -> dict[str, str]:
    """Returns fields by name, the last of each, with line ends as on Unix: browsers send CRLF. An uploaded `file`
    replaces the field `text`.

    Args:
        request: a request with a form.
        most_bytes: the maximum size of its body.
        what: the subject of the error message, such as `A service`.

    Raises:
        TooLarge: The body exceeds its limit.
        BadRequest: It is damaged.
    """
    try:
        if request.headers.get("content-type", "").startswith("multipart/"):
            fields = await _read_multipart_fields(request, ENCODED * most_bytes)
        else:
            body = await read_whole_body(request, ENCODED * most_bytes, what)
            fields = {name: values[-1] for name, values in _parse_url_encoded(body).items()}
    except TooLarge:
        raise TooLarge(f"{what} may have {most_bytes} bytes here.", hint=HINT) from None
    return {name: value.replace("\r\n", "\n") for name, value in fields.items()}


async def _read_multipart_fields(request: Request, most_bytes: int) -> dict[str, str]:
    parts_by_name: dict[str, bytes] = {}
    name, size = "", 0
    async for piece in multipart_pieces(request, hint="The page's form sends it."):
        if isinstance(piece, MultipartSegment):
            name = str(piece.name)
            parts_by_name[name] = b""
            size += len(name)
        else:
            parts_by_name[name] += piece
            size += len(piece)
        if size > most_bytes:
            raise TooLarge("The form is too large.")
    texts = {name: data.decode("utf-8", "replace") for name, data in parts_by_name.items()}
    if parts_by_name.get(FILE):
        texts[TEXT] = texts[FILE]
    return texts


def _parse_url_encoded(body: bytes) -> dict[str, list[str]]:
    return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)


@dataclass(frozen=True)
class SentFile:
    """An uploaded file of a form, in our own folder."""

    name: str
    """The name from the browser, without folders."""
    path: Path

    def chunks(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            while chunk := file.read(READ_BYTES):
                yield chunk


@dataclass
class SentForm:
    """A form as a browser sends it: texts and files by the name of their field."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, list[SentFile]] = field(default_factory=dict)


@asynccontextmanager
async def receive_form(
    request: Request,
    work: Path,
    *,
    max_bytes: int,
    too_large: str = "The files are larger than is accepted here.",
    hint: str = "",
) -> AsyncIterator[SentForm]:
    """Yields fields and files; the files are deleted afterwards. For browsers without JavaScript: the script uploads to
    /uploads, which streams into the store.

    Args:
        request: a request with a form.
        work: folder for the temporary files.
        max_bytes: the maximum size of the body.
        too_large: the error message for a larger one.
        hint: the hint of that error.

    Raises:
        BadRequest: The body is damaged.
        TooLarge: It exceeds its limit.
    """
    boundary = boundary_of_request(request)
    if boundary is None:
        yield SentForm(_parse_url_encoded(await read_whole_body(request, MAX_TEXT_BYTES, "A form")))
        return
    if not boundary:
        raise BadRequest("The form names no boundary.", hint="Send it again, as curl -F does.")
    reader = MultipartReader(boundary)
    await run_in_threadpool(work.mkdir, mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="form-", dir=work))
    spool = _Spool(folder)
    try:
        async for chunk in request.stream():
            max_bytes -= len(chunk)
            if max_bytes < 0:
                raise TooLarge(too_large, hint=hint)
            await run_in_threadpool(spool.take, reader.feed(chunk))
        spool.end()
        yield spool.sent
    finally:
        spool.end()
        await run_in_threadpool(shutil.rmtree, folder, ignore_errors=True)


class _Spool:
    """Fields in memory, files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.sent = SentForm()
        self._folder = folder
        self._left_text = MAX_TEXT_BYTES
        self._count = 0
        self._name = ""
        self._text: bytearray | None = None
        self._file: BinaryIO | None = None

    def take(self, pieces: Iterator[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, MultipartSegment):
                self._begin(piece)
            elif self._file is not None:
                self._file.write(piece)
            elif self._text is not None:
                self._left_text -= len(piece)
                if self._left_text < 0:
                    raise TooLarge("The form is too large.")
                self._text += piece

    def _begin(self, part: MultipartSegment) -> None:
        self.end()
        self._name = str(part.name)
        if part.filename is None:
            self._text = bytearray()
        elif part.filename:  # an empty name: no file was chosen
            path = self._folder / str(self._count)
            self._count += 1
            self._file = path.open("wb")
            self.sent.files.setdefault(self._name, []).append(SentFile(plain_name(part.filename), path))

    def end(self) -> None:
        """The first part: nothing has started before it."""
        if self._text is not None:
            self.sent.fields.setdefault(self._name, []).append(self._text.decode("utf-8", "replace"))
        if self._file is not None:
            self._file.close()
        self._text = self._file = None
