"""Files as downloads: the bytes of an object, whole or in a range, and texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.kit.errors import BadRequest
from app.kit.text.attachment import attachment
from app.kit.web.conditions import is_known, require_match

CSV = "text/csv; charset=utf-8"
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class RangeNotSatisfiable(BadRequest, status=416, code="RANGE_NOT_SATISFIABLE"): ...


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Returns the half-open range of a Range header; None for the whole object (no header, or an unsupported form).

    Raises:
        RangeNotSatisfiable: The range is outside of the object.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < int(first):
            return None
    if start >= end:
        raise RangeNotSatisfiable(f"The object has {size} bytes; {header} lies outside.", detail={"size_bytes": size})
    return start, end


def stream_bytes(
    request: Request, read: Callable[[int, int], Iterator[bytes]], *, size: int, etag: str, name: str, media_type: str
) -> Response:
    """Returns an object as a download: the whole, or the requested range; 304 if the client already has it.

    Args:
        read: yields the bytes start <= i < end; called with both.
        size: in bytes.
        etag: without quotes.
        name: the name of the saved file.

    Raises:
        PreconditionFailed: If-Match names another version.
        RangeNotSatisfiable: The requested range is outside of the object.
    """
    require_match(request, etag)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": f'"{etag}"',
        "Content-Disposition": attachment(name),
        "Cache-Control": "private, no-cache",
    }
    if is_known(request, etag):
        return Response(status_code=304, headers=headers)
    is_same = request.headers.get("if-range", headers["ETag"]) == headers["ETag"]
    range_ = byte_range(request.headers.get("range"), size) if is_same and request.method == "GET" else None
    start, end = range_ or (0, size)
    headers["Content-Length"] = str(end - start)
    if range_:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    if request.method == "HEAD":
        return Response(status_code=200, headers=headers, media_type=media_type)
    status = 206 if range_ else 200
    return StreamingResponse(read(start, end), status_code=status, headers=headers, media_type=media_type)


def text_file(text: str, name: str, media_type: str) -> Response:
    """Returns a text as a file to download, which no cache keeps."""
    headers = {"Content-Disposition": attachment(name), "Cache-Control": "no-store"}
    return Response(text, media_type=media_type, headers=headers)
