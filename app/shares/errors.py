"""Errors of links to jobs."""

from __future__ import annotations

from app.kit.errors import NotFound, TooMany


class ShareNotFound(NotFound):
    """There is no such link, it has expired or was revoked: who asks learns no more."""

    code = "SHARE_NOT_FOUND"


class TooManyShares(TooMany):
    code = "TOO_MANY_SHARES"
    can_retry = False
