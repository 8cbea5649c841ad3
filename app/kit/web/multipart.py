"""A multipart body as it streams by: the beginning of each part, then its bytes. Nothing is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeAlias

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header
from starlette.requests import Request

from app.kit.errors import BadRequest, ModelmillError

MAX_PARTS = 20_000
Part: TypeAlias = MultipartSegment | bytes


class NotMultipart(ModelmillError):
    status = 415
    code = "NOT_MULTIPART"


def multipart_parts(request: Request, *, hint: str) -> AsyncIterator[Part]:
    """The parts of the body, as they come.

    Args:
        request: with a multipart body.
        hint: how such a body is sent here.

    Raises:
        NotMultipart: at once.
        BadRequest: the body is damaged.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != "multipart/form-data" or not options.get("boundary"):
        raise NotMultipart("An upload is multipart/form-data.", hint=hint)
    return _parts(request, options["boundary"])


async def _parts(request: Request, boundary: str) -> AsyncIterator[Part]:
    parser = PushMultipartParser(boundary, max_segment_count=MAX_PARTS)
    try:
        async for chunk in request.stream():  # the last one is empty, which tells the parser that nothing follows
            for event in parser.parse(chunk):
                if event is not None:
                    yield event if isinstance(event, MultipartSegment) else bytes(event)
    except MultipartError as error:
        raise BadRequest(
            f"This is no valid multipart body, or it ended early: {error}.", hint="Send it again, as curl -F does."
        ) from None


def plain_name(name: str | None, *, most: int = 150) -> str:
    """The last part of an uploaded name, without control characters: its end, where the file's kind stands."""
    last = (name or "").replace("\\", "/").rpartition("/")[2]
    plain = "".join(c for c in last if c.isprintable())[-most:]
    return plain if plain.strip(".") else "unnamed"
