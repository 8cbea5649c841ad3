"""Public keys that users give us: read, judged, and written in one form."""

from __future__ import annotations

from collections.abc import Sequence

from app.kit.errors import BadInput

MAX_KEYS = 20
MAX_KEY_CHARS = 8192
MIN_RSA_CHARS = 370
"""Of the base64 of a 2048-bit key, which has 372."""


class BadPublicKey(BadInput):
    code = "BAD_PUBLIC_KEY"


def check_keys(texts: Sequence[str]) -> list[str]:
    """The keys in one form, each once: algorithm, base64, comment. Raises BadPublicKey."""
    if len(texts) > MAX_KEYS:
        raise BadPublicKey(f"An account may have {MAX_KEYS} keys.", hint="Remove those that are not used.")
    return list(dict.fromkeys(_checked(text) for text in texts))


def _checked(text: str) -> str:
    line = text.strip()
    if "PRIVATE KEY" in line:
        raise BadPublicKey(
            "This is a private key: keep it to yourself.", hint="Give the one whose file name ends in .pub."
        )
    parts = line.split(None, 2)
    if len(line) > MAX_KEY_CHARS or "\n" in line or len(parts) < 2:
        raise _unreadable()
    algorithm, encoded, *comment = parts
    import asyncssh

    try:
        key = asyncssh.import_public_key(f"{algorithm} {encoded}")
    except (asyncssh.KeyImportError, ValueError) as error:
        raise _unreadable() from error
    name = key.get_algorithm()
    if name == "ssh-dss" or (name == "ssh-rsa" and len(encoded) < MIN_RSA_CHARS):
        raise BadPublicKey("This key is too weak.", hint="Make one with `ssh-keygen -t ed25519`.")
    return " ".join([name, encoded, *("".join(c for c in part if c.isprintable()) for part in comment)])


def _unreadable() -> BadPublicKey:
    return BadPublicKey(
        "This is no public key of OpenSSH's form, on one line.",
        hint="It looks like `ssh-ed25519 AAAA… name`, and lies in ~/.ssh/id_ed25519.pub.",
    )
