"""The address at which a reader reaches this web server: displayed links use it, unless a public URL is set."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.requests import Request

from app.kit.web.state import web_settings_of

_AUTHORITY = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
"""Allowed characters of a Host header that is displayed again, in commands that people copy."""


def find_reached_url(request: Request) -> str:
    """scheme://host[:port], without a trailing slash."""
    settings = web_settings_of(request)
    authority = request.headers.get("host", "")
    if settings.public_url or _AUTHORITY.fullmatch(authority) is None:
        return str(settings.web_url)
    return f"{request.url.scheme}://{authority}"


def find_reached_host(request: Request) -> str:
    """Only the name or address."""
    return urlsplit(find_reached_url(request)).hostname or ""


def rewrite_link(request: Request, url: str) -> str:
    """Rewrites a link to our own web server to the reader's address; other links are unchanged."""
    own = f"{web_settings_of(request).web_url}/"
    return f"{find_reached_url(request)}/{url.removeprefix(own)}" if url.startswith(own) else url
