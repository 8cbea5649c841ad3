"""The newest picture of a producer as pages show it, also while there is none."""

from __future__ import annotations

from starlette.responses import Response

HEADERS = {"Cache-Control": "private, no-cache", "Content-Security-Policy": "default-src 'none'; sandbox"}
BLANK = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 90"><rect width="160" height="90" fill="#87918a" '
    'fill-opacity=".18"/><path d="M66 31v28l26-14z" fill="#87918a" fill-opacity=".6"/></svg>'
)


def newest_picture(picture: bytes | None, content_type: str = "image/jpeg") -> Response:
    """The response with a picture; a blank one for None."""
    if picture is None:
        return Response(BLANK, media_type="image/svg+xml", headers=HEADERS)
    return Response(picture, media_type=content_type, headers=HEADERS)
