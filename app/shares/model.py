"""A link to one job. Pure."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    share_id: str
    owner: str
    job_id: str
    key_hash: str
    """Of the key in the link; the key itself is kept nowhere."""
    label: str
    created_at: str
    expires_at: str
    revoked_at: str | None = None
    last_used_at: str | None = None

    def opens_with(self, key: str, at: str) -> bool:
        """Is this its key, and does it hold at this time?"""
        is_key = hmac.compare_digest(self.key_hash, hash_of(key))
        return is_key and self.revoked_at is None and self.expires_at > at


def new_key() -> str:
    """One that nobody guesses."""
    return secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    """Of a key of 256 random bits, for which a plain hash will do."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
