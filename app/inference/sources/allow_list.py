"""Which sources a remote request may open on a machine: only folders, files and URLs that its administrator offers.

A pattern is a path, which offers itself and all below it, or a URL in which `*` stands for anything:
`rtsp://10.0.0.*/cam*`, `https://cameras.example/*`. Scheme, host and port must be those of the pattern; in a host or a
port `*` matches one part between dots, or at the beginning everything before the rest: `https://*.cameras.example:*/*`.

Some sources may be withheld from some users: they are then not offered, even if another pattern covers them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from app.kit.errors import BadInput


class SourceNotOffered(BadInput, code="SOURCE_NOT_OFFERED"):
    """Does not say whether the source exists, so that names of files cannot be guessed."""


def resolve_source(source: str, patterns: Sequence[str], withheld: Sequence[str] = ()) -> str:
    """Returns the source as it may be opened: a path without links and `..`, or the URL.

    Args:
        patterns: what is offered.
        withheld: what this user may not open.

    Raises:
        SourceNotOffered: It is not offered.
    """
    opened = _match_url(source, patterns, withheld) if "://" in source else _match_path(source, patterns, withheld)
    if opened is None:
        raise SourceNotOffered(
            "This node does not offer this source.",
            hint="The node's administrator offers folders and URLs with `modelmill node --source`.",
        )
    return opened


def _match_path(source: str, patterns: Sequence[str], withheld: Sequence[str]) -> str | None:
    """Returns the path if it is offered. The nearest folder above it decides; a folder that contains something withheld
    is not opened, either."""
    if "\0" in source:
        return None
    try:
        place = Path(source).resolve()
        offered, closed = (
            [Path(pattern).resolve() for pattern in some if "://" not in pattern] for some in (patterns, withheld)
        )
    except (OSError, RuntimeError):
        return None
    depths = [len(root.parts) for root in offered if place.is_relative_to(root)]
    is_closed = any(
        root.is_relative_to(place) or (place.is_relative_to(root) and len(root.parts) >= max(depths, default=0))
        for root in closed
    )
    return str(place) if depths and not is_closed else None


def _match_url(source: str, patterns: Sequence[str], withheld: Sequence[str]) -> str | None:
    url = _split(source)
    if url is None or ".." in unquote(url.path).split("/"):
        return None
    if any((closed := _split(pattern)) is not None and _is_at(closed, url) for pattern in withheld):
        return None
    offered = (_split(pattern) for pattern in patterns if "://" in pattern)
    return source if any(pattern is not None and _offers(pattern, url) for pattern in offered) else None


def _split(url: str) -> SplitResult | None:
    if not url.isprintable() or "\\" in url or " " in url:
        return None
    try:
        parts = urlsplit(url)
        return parts if parts.hostname else None
    except ValueError:
        return None


def _offers(pattern: SplitResult, url: SplitResult) -> bool:
    def whole(parts: SplitResult) -> str:
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    return (
        _get_scheme(pattern) == _get_scheme(url)
        and _is_host(_get_host(pattern), _get_host(url))
        and _matches(whole(pattern), whole(url))
    )


def _is_at(closed: SplitResult, url: SplitResult) -> bool:
    """Returns whether it is the same place, with any scheme, port or query, since the device behind it is the same."""
    place = posixpath.normpath("/" + unquote(url.path).lstrip("/"))
    return _matches(closed.hostname or "", url.hostname or "") and any(
        _matches(pattern, place) for pattern in (closed.path or "/", f"{closed.path.rstrip('/')}/*")
    )


def _get_scheme(parts: SplitResult) -> str:
    """Returns the scheme; the transport of RTSP (rtspt, rtspu) does not make another source."""
    scheme = parts.scheme.lower()
    return "rtsp" if scheme in ("rtspt", "rtspu") else scheme


def _get_host(parts: SplitResult) -> str:
    """Returns the host with its port, without user and password, which make no difference."""
    return parts.netloc.rpartition("@")[2].lower()


def _is_host(pattern: str, host: str) -> bool:
    """Compares hosts: `10.0.0.*` matches neither `10.0.0.1.elsewhere.example`, whose owner decides where it leads, nor
    another port."""
    beginning = ".*" if pattern.startswith("*") else ""
    rest = "[^.:]*".join(map(re.escape, pattern.removeprefix("*").split("*")))
    return re.fullmatch(beginning + rest, host, re.DOTALL) is not None


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None
