"""By which address a reader has reached this web: what they are shown leads back there, unless a public URL is set."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.requests import Request

from app.kit.web.state import web_settings_of

_AUTHORITY = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
"""What a Host header may hold that is shown again, in commands that people copy."""


def reached_url(request: Request) -> str:
    """scheme://host[:port], without a slash at its end."""
    settings = web_settings_of(request)
    authority = request.headers.get("host", "")
    if settings.public_url or _AUTHORITY.fullmatch(authority) is None:
        return str(settings.web_url)
    return f"{request.url.scheme}://{authority}"


def reached_host(request: Request) -> str:
    """The name or address alone."""
    return urlsplit(reached_url(request)).hostname or ""


def reached_link(request: Request, url: str) -> str:
    """A link that was made to our own web, as the reader reaches it; any other as it is."""
    own = f"{web_settings_of(request).web_url}/"
    return f"{reached_url(request)}/{url.removeprefix(own)}" if url.startswith(own) else url
