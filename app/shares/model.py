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
    """Hash of the key in the link; the key itself is not stored."""
    label: str
    created_at: str
    expires_at: str
    revoked_at: str | None = None
    last_used_at: str | None = None

    def opens_with(self, key: str, at: str) -> bool:
        """Returns whether this is its key, and the link is valid at this time."""
        return hmac.compare_digest(self.key_hash, hash_of(key)) and self.is_valid(at)

    def is_valid(self, at: str) -> bool:
        """Returns whether it is neither revoked nor expired at this time."""
        return self.revoked_at is None and self.expires_at > at


def new_key() -> str:
    """Returns a key that cannot be guessed."""
    return secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    """Returns the hash of a key; for 256 random bits a plain hash is sufficient."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
