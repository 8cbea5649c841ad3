"""What of a machine somebody else's text may open: folders, files and URLs that its administrator offers, and no more.

A pattern is a path, which offers itself and all below it, or a URL in which `*` stands for anything:
`rtsp://10.0.0.*/cam*`, `https://cameras.example/*`. Scheme, host and port must be those of the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from app.kit.errors import BadInput


class SourceNotOffered(BadInput):
    """Says nothing of whether it is there: else names of files could be guessed."""

    code = "SOURCE_NOT_OFFERED"


def resolved(source: str, patterns: Sequence[str]) -> str:
    """The source as it may be opened: a path without links and `..`, or the URL. Raises SourceNotOffered."""
    found = _url(source, patterns) if "://" in source else _path(source, patterns)
    if found is None:
        raise SourceNotOffered(
            "This node does not offer this source.",
            hint="The node's administrator offers folders and URLs with `modelmill node --source`.",
        )
    return found


def _path(source: str, patterns: Sequence[str]) -> str | None:
    if "\0" in source:
        return None
    try:
        place = Path(source).resolve()
        roots = [Path(pattern).resolve() for pattern in patterns if "://" not in pattern]
    except (OSError, RuntimeError):
        return None
    return str(place) if any(place.is_relative_to(root) for root in roots) else None


def _url(source: str, patterns: Sequence[str]) -> str | None:
    wanted = _split(source)
    if wanted is None or ".." in unquote(wanted.path).split("/"):
        return None
    offered = (_split(pattern) for pattern in patterns if "://" in pattern)
    return source if any(pattern is not None and _offers(pattern, wanted) for pattern in offered) else None


def _split(url: str) -> SplitResult | None:
    if not url.isprintable() or "\\" in url or " " in url:
        return None
    try:
        parts = urlsplit(url)
        return parts if parts.hostname else None
    except ValueError:
        return None


def _offers(pattern: SplitResult, wanted: SplitResult) -> bool:
    def whole(parts: SplitResult) -> str:
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    return (
        pattern.scheme.lower() == wanted.scheme.lower()
        and _matches(_host(pattern), _host(wanted))
        and _matches(whole(pattern), whole(wanted))
    )


def _host(parts: SplitResult) -> str:
    """With its port, without user and password, which open nothing but that host."""
    return parts.netloc.rpartition("@")[2].lower()


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None
