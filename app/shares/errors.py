"""Errors of links to jobs."""

from __future__ import annotations

from app.kit.errors import NotFound, TooMany


class ShareNotFound(NotFound, code="SHARE_NOT_FOUND"):
    """The link does not exist, has expired or was revoked; the caller learns no more."""


class TooManyShares(TooMany, code="TOO_MANY_SHARES", can_retry=False): ...
