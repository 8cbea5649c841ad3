"""Which token set a password or key for SFTP: with the token it ends. In SQL, in the caller's transactions.

What has no binding holds until it is replaced or removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from app.accounts.store import api_tokens, token_holds
from app.homes.store import door_bindings

PASSWORD = "password"  # noqa: S105  # the name of it

_C = door_bindings.c


def credential_of(key: str) -> str:
    """The stored form of a public key in OpenSSH's format, without its comment."""
    return hashlib.sha256(key.split()[1].encode()).hexdigest()


def bindings_of(conn: Connection, user: str) -> dict[str, str]:
    """Credential → id of the token that set it."""
    return {row.credential: row.token_id for row in conn.execute(sa.select(door_bindings).where(_C.user_name == user))}


def bind(conn: Connection, user: str, tokens: dict[str, str | None]) -> None:
    """Binds each of these credentials to this token, or to none, replacing earlier bindings."""
    conn.execute(sa.delete(door_bindings).where(_C.user_name == user, _C.credential.in_(tokens)))
    rows = [
        {"user_name": user, "credential": credential, "token_id": token_id}
        for credential, token_id in tokens.items()
        if token_id
    ]
    if rows:
        conn.execute(sa.insert(door_bindings), rows)


def forget_others(conn: Connection, user: str, credentials: Collection[str] = ()) -> None:
    """The bindings of all of the user's credentials except these."""
    conn.execute(sa.delete(door_bindings).where(_C.user_name == user, _C.credential.not_in(credentials)))


def ended_of(conn: Connection, user: str, at: str) -> set[str]:
    """The user's credentials whose token is revoked, expired or deleted at this time."""
    return set(conn.execute(_select_ended(_C.credential, at).where(_C.user_name == user)).scalars())


def users_ended(conn: Connection, at: str) -> list[str]:
    """Users with such credentials."""
    return list(conn.execute(_select_ended(_C.user_name, at).distinct()).scalars())


def _select_ended(column: sa.Column[Any], at: str) -> sa.Select[tuple[Any]]:
    token = sa.select(api_tokens.c.token_id).where(api_tokens.c.token_id == _C.token_id, token_holds(at))
    return sa.select(column).select_from(door_bindings).where(~token.exists())
