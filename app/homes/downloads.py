"""A file of a home as an answer: whole or the range that was asked for, always to be saved and never to be run."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.homes.access import Home
from app.homes.errors import NotAFile
from app.homes.home_paths import HomePath
from app.homes.model import Kind
from app.kit.web.downloads import stream_bytes

MEDIA_TYPE = "application/octet-stream"


def download(request: Request, home: Home, location: HomePath) -> Response:
    """Answers with a file, or a range of it.

    Raises:
        FileMissing, NotAFile: There is none.
        RangeNotSatisfiable: The range is not in it.
    """
    tree = home.tree(location)
    entry = tree.info(location.inner)
    if entry.kind is not Kind.FILE:
        raise NotAFile(f"{location.inner or 'The home'} is no file.", hint="Name a file, not a folder or a device.")
    return stream_bytes(
        request,
        lambda start, end: tree.read(location.inner, start=start, end=end),
        size=entry.size_bytes,
        etag=entry.etag,
        name=entry.name,
        media_type=MEDIA_TYPE,
    )
