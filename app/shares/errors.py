"""Errors of links to jobs."""

from __future__ import annotations

from app.kit.errors import NotFound, TooMany


class ShareNotFound(NotFound):
    """The link does not exist, has expired or was revoked; the caller learns no more."""

    code = "SHARE_NOT_FOUND"


class TooManyShares(TooMany):
    code = "TOO_MANY_SHARES"
    can_retry = False
