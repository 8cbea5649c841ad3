"""Tokens of nodes: mn_<name>_<64 hex>. Their names have no underscore."""

from __future__ import annotations

import re
import secrets

TOKEN = re.compile(r"mn_([-a-z0-9.]{1,63})_([0-9a-f]{64})")


def new_secret() -> str:
    return secrets.token_hex(32)


def token_text(name: str, secret: str) -> str:
    return f"mn_{name}_{secret}"


def parts_of(text: str) -> tuple[str, str] | None:
    """Name and secret of a token's text; None for what is none."""
    found = TOKEN.fullmatch(text)
    return (found[1], found[2]) if found else None
