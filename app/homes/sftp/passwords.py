"""How passwords of the door are hashed: argon2id, 19 MiB and two passes, in a form that SFTPGo takes as it is."""

from __future__ import annotations

from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def hash_password(password: str) -> str:
    return _HASHER.hash(password)


def agrees(password: str, password_hash: str | None) -> bool:
    """Takes as long for a user that does not exist (None): nobody learns from the time who does."""
    try:
        is_right = _HASHER.verify(password_hash or _dummy(), password)
    except (VerificationError, InvalidHashError):
        return False
    return is_right and password_hash is not None


@lru_cache(maxsize=1)
def _dummy() -> str:
    return _HASHER.hash("nobody has this password")
