"""Conditional requests (RFC 9110): what a client knows of a resource decides whether its request is performed."""

from __future__ import annotations

from starlette.requests import Request

from app.kit.errors import ModelmillError

IF_MATCH, IF_NONE_MATCH = "If-Match", "If-None-Match"
TAGS = {"type": "string"}
"""The schema of these headers."""


class PreconditionFailed(ModelmillError, status=412, code="PRECONDITION_FAILED"):
    """If-Match names another version than the current one."""


def require_match(request: Request, etag: str | None) -> None:
    """Refuses a request whose If-Match does not name the current version; weak tags never match.

    Args:
        etag: of the current version, without quotes; None: there is none.

    Raises:
        PreconditionFailed: It does not name the current version.
    """
    given = request.headers.get(IF_MATCH)
    if given is None or (etag is not None and _names(given, etag)):
        return
    raise PreconditionFailed(
        "It is not the version that If-Match names."
        if etag is not None
        else "There is nothing that If-Match can name.",
        hint="Read it again, and repeat the change with its current ETag.",
        detail={"etag": etag},
    )


def is_known(request: Request, etag: str) -> bool:
    """Whether the client says that it already has this version (If-None-Match).

    Args:
        etag: without quotes.
    """
    return _names(request.headers.get(IF_NONE_MATCH, "").replace("W/", ""), etag)


def _names(header: str, etag: str) -> bool:
    tags = [tag.strip() for tag in header.split(",")]
    return "*" in tags or f'"{etag}"' in tags
