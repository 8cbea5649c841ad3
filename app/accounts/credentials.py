"""The secrets that users carry, and the keyed hashes that are stored of them.

A token is `mm_<id>_<secret>`: the id finds the row, the secret is compared in constant time. The secrets are random
and long, so a fast keyed hash is enough; without the key, which is not in the database, a stolen table is worthless.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

PREFIX = "mm"
TOKEN = re.compile(r"mm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
PURPOSE = b"modelmill tokens and sessions"


class SecretHasher:
    """
    Args:
        key: the installation's secret key; all web processes need the same one.
    """

    def __init__(self, key: str) -> None:
        self._key = hmac.digest(key.encode(), PURPOSE, "sha256")

    @property
    def fingerprint(self) -> str:
        """Distinguishes two keys without revealing anything else about them."""
        return self.hash("fingerprint")

    def hash(self, secret: str) -> str:
        return hmac.new(self._key, secret.encode(), hashlib.sha256).hexdigest()

    def agrees(self, secret: str, secret_hash: str) -> bool:
        """Whether this is the hash of the secret, compared in a time that does not depend on it."""
        return hmac.compare_digest(self.hash(secret), secret_hash)


def new_token() -> tuple[str, str]:
    """Id and secret."""
    return secrets.token_hex(6), secrets.token_urlsafe(32)


def new_session() -> str:
    return secrets.token_urlsafe(32)


def token_text(token_id: str, secret: str) -> str:
    return f"{PREFIX}_{token_id}_{secret}"


def parts_of(text: str) -> tuple[str, str] | None:
    """Id and secret of a token's text; None for any other text."""
    match = TOKEN.fullmatch(text)
    return (match[1], match[2]) if match else None
