"""With what users log in over SFTP: passwords, checked and hashed, and public keys, checked and written in one form.

Passwords are hashed by argon2id, 19 MiB and two passes, in a form that SFTPGo takes as it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from app.kit.errors import BadInput

MIN_PASSWORD, MAX_PASSWORD = 10, 128
"""Characters."""
ONE_TIME_BYTES = 15
MAX_KEYS = 20
MAX_KEY_CHARS = 8192
MIN_RSA_CHARS = 370
"""Of the base64 of a 2048-bit key, which has 372."""
_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


class BadSftpPassword(BadInput, code="BAD_DOOR_PASSWORD"): ...


class BadPublicKey(BadInput, code="BAD_PUBLIC_KEY"): ...


def new_one_time_password() -> str:
    return secrets.token_urlsafe(ONE_TIME_BYTES)


def check_password(password: str) -> str:
    """Returns the password if it is acceptable.

    Raises:
        BadSftpPassword: It is not.
    """
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise BadSftpPassword(f"A password has {MIN_PASSWORD} to {MAX_PASSWORD} characters.", hint="Choose another.")
    if not password.isprintable() or len(set(password)) < 4:
        raise BadSftpPassword(
            "A password has characters that can be typed, and at least four different ones.", hint="Choose another."
        )
    return password


def hash_password(password: str) -> str:
    return _HASHER.hash(password)


def agrees(password: str, password_hash: str | None) -> bool:
    """Takes as long for a user that does not exist (None), so that the time reveals nothing."""
    try:
        is_right = _HASHER.verify(password_hash or _make_dummy(), password)
    except (VerificationError, InvalidHashError):
        return False
    return is_right and password_hash is not None


@lru_cache(maxsize=1)
def _make_dummy() -> str:
    return _HASHER.hash("nobody has this password")


def check_keys(texts: Sequence[str]) -> list[str]:
    """The keys in a canonical form, each once: algorithm, base64, comment.

    Raises:
        BadPublicKey: One is no public key of a supported kind, or there are too many.
    """
    if len(texts) > MAX_KEYS:
        raise BadPublicKey(f"An account may have {MAX_KEYS} keys.", hint="Remove those that are not used.")
    return list(dict.fromkeys(_check(text) for text in texts))


def _check(text: str) -> str:
    line = text.strip()
    if "PRIVATE KEY" in line:
        raise BadPublicKey(
            "This is a private key: keep it to yourself.", hint="Give the one whose file name ends in .pub."
        )
    parts = line.split(None, 2)
    if len(line) > MAX_KEY_CHARS or "\n" in line or len(parts) < 2:
        raise _make_bad_key()
    algorithm, encoded, *comment = parts
    import asyncssh

    try:
        key = asyncssh.import_public_key(f"{algorithm} {encoded}")
    except (asyncssh.KeyImportError, ValueError) as error:
        raise _make_bad_key() from error
    name = key.get_algorithm()
    if name == "ssh-dss" or (name == "ssh-rsa" and len(encoded) < MIN_RSA_CHARS):
        raise BadPublicKey("This key is too weak.", hint="Make one with `ssh-keygen -t ed25519`.")
    return " ".join([name, encoded, *("".join(c for c in part if c.isprintable()) for part in comment)])


def _make_bad_key() -> BadPublicKey:
    return BadPublicKey(
        "This is no public key of OpenSSH's form, on one line.",
        hint="It looks like `ssh-ed25519 AAAA… name`, and lies in ~/.ssh/id_ed25519.pub.",
    )
