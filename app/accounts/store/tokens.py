"""Tokens, the sessions that they start, and facts of the installation: whose secret key their hashes are made with."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.accounts.model import Role, Scope, Token, User
from app.accounts.store.tables import api_tokens, installation, sessions, users
from app.kit.sql.rows import from_row, row_of

_TOKEN_COLUMNS = [column for column in api_tokens.c if column is not api_tokens.c.secret_hash]

_BY_TOKEN = (
    sa.select(*_TOKEN_COLUMNS, api_tokens.c.secret_hash, users.c.role, users.c.is_enabled)
    .join(users, users.c.name == api_tokens.c.user_name)
    .where(api_tokens.c.token_id == sa.bindparam("token_id"))
)

_BY_SESSION = (
    sa.select(*_TOKEN_COLUMNS, sessions.c.expires_at.label("session_expires_at"), users.c.role, users.c.is_enabled)
    .join(api_tokens, api_tokens.c.token_id == sessions.c.token_id)
    .join(users, users.c.name == api_tokens.c.user_name)
    .where(sessions.c.session_hash == sa.bindparam("session_hash"))
)


def token_holds(at: str) -> sa.ColumnElement[bool]:
    """The condition: as Token.holds, at this time."""
    c = api_tokens.c
    return sa.and_(c.revoked_at.is_(None), sa.or_(c.expires_at.is_(None), c.expires_at > at))


def add_token(conn: Connection, token: Token, secret_hash: str) -> None:
    row = row_of(api_tokens, token, secret_hash=secret_hash, scopes=" ".join(sorted(token.scopes)))
    conn.execute(sa.insert(api_tokens).values(row))


def find_token(conn: Connection, token_id: str) -> tuple[Token, User, str] | None:
    """The token, its user and the hash of its secret."""
    row = conn.execute(_BY_TOKEN, {"token_id": token_id}).first()
    return (_token_from_row(row), _owner_from_row(row), row.secret_hash) if row else None


def list_tokens(conn: Connection, user_name: str) -> list[Token]:
    statement = sa.select(*_TOKEN_COLUMNS).where(api_tokens.c.user_name == user_name).order_by(api_tokens.c.created_at)
    return [_token_from_row(row) for row in conn.execute(statement)]


def lock_token(conn: Connection, token_id: str, at: str) -> bool:
    """Whether it is valid at this time. Until the transaction ends nobody revokes it."""
    valid = sa.select(api_tokens.c.token_id).where(api_tokens.c.token_id == token_id, token_holds(at))
    return conn.execute(valid.with_for_update()).first() is not None


def valid_made_by(conn: Connection, token_ids: Collection[str], at: str) -> dict[str, list[Token]]:
    """By creator: the tokens created by each of these, or by those, that are valid at this time."""
    c = api_tokens.c
    descendants = (
        sa.select(c.made_by.label("maker"), c.token_id).where(c.made_by.in_(token_ids)).cte("made", recursive=True)
    )
    descendants = descendants.union(
        sa.select(descendants.c.maker, c.token_id).where(c.made_by == descendants.c.token_id)
    )
    valid = (
        sa.select(descendants.c.maker, *_TOKEN_COLUMNS)
        .join(descendants, descendants.c.token_id == c.token_id)
        .where(token_holds(at))
    )
    tokens: dict[str, list[Token]] = {}
    for row in conn.execute(valid.order_by(c.created_at, c.token_id)):
        tokens.setdefault(row.maker, []).append(_token_from_row(row))
    return tokens


def token_used(conn: Connection, token_id: str, at: str) -> None:
    conn.execute(sa.update(api_tokens).where(api_tokens.c.token_id == token_id).values(last_used_at=at))


def revoke_token(conn: Connection, user_name: str, token_id: str, at: str) -> bool:
    """Revokes a token, and ends the sessions it started.

    Args:
        at: when, as text in ISO 8601.

    Returns:
        False if the user has no such token, or it is revoked already.
    """
    mine = (api_tokens.c.token_id == token_id, api_tokens.c.user_name == user_name, api_tokens.c.revoked_at.is_(None))
    if conn.execute(sa.update(api_tokens).where(*mine).values(revoked_at=at)).rowcount == 0:
        return False
    conn.execute(sa.delete(sessions).where(sessions.c.token_id == token_id))
    return True


def has_tokens(conn: Connection) -> bool:
    return conn.scalar(sa.select(api_tokens.c.token_id).limit(1)) is not None


def add_session(conn: Connection, session_hash: str, token_id: str, *, created_at: str, expires_at: str) -> None:
    """Starts a session.

    Args:
        session_hash: the hash of the cookie's secret, which is not stored.
        token_id: the token with which its user logged in; the session ends with it.
        created_at: text in ISO 8601.
        expires_at: text in ISO 8601.
    """
    conn.execute(
        sa.insert(sessions).values(
            session_hash=session_hash, token_id=token_id, created_at=created_at, expires_at=expires_at
        )
    )


def find_session(conn: Connection, session_hash: str) -> tuple[Token, User, str] | None:
    """The token that started it, its user, and when the session ends."""
    row = conn.execute(_BY_SESSION, {"session_hash": session_hash}).first()
    return (_token_from_row(row), _owner_from_row(row), row.session_expires_at) if row else None


def delete_session(conn: Connection, session_hash: str) -> None:
    conn.execute(sa.delete(sessions).where(sessions.c.session_hash == session_hash))


def delete_sessions_of(conn: Connection, user_name: str) -> None:
    theirs = sa.select(api_tokens.c.token_id).where(api_tokens.c.user_name == user_name)
    conn.execute(sa.delete(sessions).where(sessions.c.token_id.in_(theirs)))


def delete_sessions_before(conn: Connection, at: str) -> int:
    return conn.execute(sa.delete(sessions).where(sessions.c.expires_at < at)).rowcount


def _owner_from_row(row: Row[*tuple[Any, ...]]) -> User:
    """Of a token's row: enough of the user to determine the token's permissions."""
    return User(row.user_name, Role(row.role), bool(row.is_enabled), "")


def _token_from_row(row: Row[*tuple[Any, ...]]) -> Token:
    return from_row(Token, row, scopes=frozenset(Scope(word) for word in row.scopes.split()))


def fact(conn: Connection, name: str) -> str | None:
    """The installation's fact with this name."""
    value: str | None = conn.scalar(sa.select(installation.c.value).where(installation.c.name == name))
    return value


def remember_fact(conn: Connection, name: str, value: str) -> None:
    conn.execute(sa.delete(installation).where(installation.c.name == name))
    conn.execute(sa.insert(installation).values(name=name, value=value))
