"""Stores users, tokens, sessions and the audit in SQL. Knows no rules: they are the service's."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from app.accounts.model import AuditEntry, Role, Scope, Token, User
from app.kit.sql import metadata

TIME = sa.String(32)
USER = sa.String(32)

users = sa.Table(
    "users",
    metadata,
    sa.Column("name", USER, primary_key=True),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("is_enabled", sa.Boolean, nullable=False),
    sa.Column("quota_bytes", sa.BigInteger),
    sa.Column("quota_files", sa.BigInteger),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("group_names", sa.Text, nullable=False, server_default=""),
)
"""group_names: with blanks between them."""
api_tokens = sa.Table(
    "api_tokens",
    metadata,
    sa.Column("token_id", sa.String(16), primary_key=True),
    sa.Column("user_name", USER, sa.ForeignKey("users.name", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("label", sa.String(100), nullable=False),
    sa.Column("secret_hash", sa.String(64), nullable=False),
    sa.Column("scopes", sa.String(100), nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("expires_at", TIME),
    sa.Column("last_used_at", TIME),
    sa.Column("revoked_at", TIME),
    sa.Column("made_by", sa.String(16), index=True),
)
sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("session_hash", sa.String(64), primary_key=True),
    sa.Column(
        "token_id", sa.String(16), sa.ForeignKey("api_tokens.token_id", ondelete="CASCADE"), nullable=False, index=True
    ),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("expires_at", TIME, nullable=False, index=True),
)
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("entry_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", TIME, nullable=False),
    sa.Column("actor", USER, nullable=False, index=True),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("subject", sa.String(300), nullable=False, index=True),
    sa.Column("detail", sa.Text, nullable=False),
)

installation = sa.Table(
    "installation",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

_IS_ADMIN = sa.and_(users.c.role == Role.ADMIN.value, users.c.is_enabled)
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


# --- users ------------------------------------------------------------------------------------------
def add_user(conn: Connection, user: User) -> bool:
    """False when there is one of this name already."""
    insert = sqlite.insert if conn.dialect.name == "sqlite" else postgresql.insert
    return (
        conn.execute(
            insert(users)
            .values(
                name=user.name,
                role=user.role.value,
                is_enabled=user.is_enabled,
                quota_bytes=user.quota_bytes,
                quota_files=user.quota_files,
                created_at=user.created_at,
            )
            .on_conflict_do_nothing()
            .returning(users.c.name)
        ).first()
        is not None
    )


def lock_user(conn: Connection, name: str) -> User | None:
    """As get_user; until the transaction ends nobody else changes or deletes the user. SQLite has one writer anyway."""
    row = conn.execute(sa.select(users).where(users.c.name == name).with_for_update()).first()
    return _user(row) if row else None


def lock_admins(conn: Connection) -> None:
    """Before one of them may be taken away: two at once could otherwise each find the other still there."""
    conn.execute(sa.select(users.c.name).where(_IS_ADMIN).order_by(users.c.name).with_for_update()).all()


def get_user(conn: Connection, name: str) -> User | None:
    row = conn.execute(sa.select(users).where(users.c.name == name)).first()
    return _user(row) if row else None


def enabled_of(conn: Connection, names: Collection[str]) -> set[str]:
    """Those of these names whose users there are, and who are enabled."""
    return set(conn.execute(sa.select(users.c.name).where(users.c.name.in_(names), users.c.is_enabled)).scalars())


def list_users(conn: Connection, *, text: str = "", after: str = "", limit: int) -> list[tuple[User, str | None]]:
    """By name, each with when a token of theirs was last used. text: part of the name. after: a name."""
    last_used = (
        sa.select(sa.func.max(api_tokens.c.last_used_at))
        .where(api_tokens.c.user_name == users.c.name)
        .scalar_subquery()
    )
    statement = sa.select(users, last_used.label("last_used_at")).where(users.c.name > after).order_by(users.c.name)
    if text:
        statement = statement.where(users.c.name.contains(text.lower(), autoescape=True))
    return [(_user(row), row.last_used_at) for row in conn.execute(statement.limit(limit))]


def change_user(conn: Connection, name: str, **fields: Any) -> bool:
    """fields: role, is_enabled, quota_bytes, quota_files, groups. False when there is no such user."""
    values = {"group_names" if field == "groups" else field: value for field, value in fields.items()}
    if "group_names" in values:
        values["group_names"] = " ".join(values["group_names"])
    return conn.execute(sa.update(users).where(users.c.name == name).values(**values)).rowcount == 1


def delete_user(conn: Connection, name: str) -> bool:
    return conn.execute(sa.delete(users).where(users.c.name == name)).rowcount == 1


def count_admins(conn: Connection) -> int:
    """Those that are enabled."""
    return int(conn.execute(sa.select(sa.func.count()).select_from(users).where(_IS_ADMIN)).scalar_one())


def count_admin_tokens(conn: Connection, at: str) -> int:
    """With which somebody could sign in as administrator at this time."""
    statement = sa.select(sa.func.count()).select_from(api_tokens.join(users)).where(_IS_ADMIN, token_holds(at))
    return int(conn.execute(statement).scalar_one())


# --- tokens -----------------------------------------------------------------------------------------
def token_holds(at: str) -> sa.ColumnElement[bool]:
    """The condition: as Token.holds, at this time."""
    c = api_tokens.c
    return sa.and_(c.revoked_at.is_(None), sa.or_(c.expires_at.is_(None), c.expires_at > at))


def add_token(conn: Connection, token: Token, secret_hash: str) -> None:
    conn.execute(
        sa.insert(api_tokens).values(
            token_id=token.token_id,
            user_name=token.user_name,
            label=token.label,
            secret_hash=secret_hash,
            scopes=" ".join(sorted(token.scopes)),
            created_at=token.created_at,
            expires_at=token.expires_at,
            made_by=token.made_by,
        )
    )


def find_token(conn: Connection, token_id: str) -> tuple[Token, User, str] | None:
    """The token, its user and the hash of its secret."""
    row = conn.execute(_BY_TOKEN, {"token_id": token_id}).first()
    return (_token(row), _owner(row), row.secret_hash) if row else None


def list_tokens(conn: Connection, user_name: str) -> list[Token]:
    statement = sa.select(*_TOKEN_COLUMNS).where(api_tokens.c.user_name == user_name).order_by(api_tokens.c.created_at)
    return [_token(row) for row in conn.execute(statement)]


def lock_token(conn: Connection, token_id: str, at: str) -> bool:
    """Is it valid at this time? Until the transaction ends nobody revokes it."""
    valid = sa.select(api_tokens.c.token_id).where(api_tokens.c.token_id == token_id, token_holds(at))
    return conn.execute(valid.with_for_update()).first() is not None


def valid_made_by(conn: Connection, token_ids: Collection[str], at: str) -> dict[str, list[Token]]:
    """By maker: the tokens that each of these made, or that those made, and that are valid at this time."""
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
        tokens.setdefault(row.maker, []).append(_token(row))
    return tokens


def token_used(conn: Connection, token_id: str, at: str) -> None:
    conn.execute(sa.update(api_tokens).where(api_tokens.c.token_id == token_id).values(last_used_at=at))


def revoke_token(conn: Connection, user_name: str, token_id: str, at: str) -> bool:
    """And end the sessions it began. False when the user has no such token, or it is revoked already."""
    mine = (api_tokens.c.token_id == token_id, api_tokens.c.user_name == user_name, api_tokens.c.revoked_at.is_(None))
    if conn.execute(sa.update(api_tokens).where(*mine).values(revoked_at=at)).rowcount == 0:
        return False
    conn.execute(sa.delete(sessions).where(sessions.c.token_id == token_id))
    return True


# --- sessions ---------------------------------------------------------------------------------------
def add_session(conn: Connection, session_hash: str, token_id: str, *, created_at: str, expires_at: str) -> None:
    conn.execute(
        sa.insert(sessions).values(
            session_hash=session_hash, token_id=token_id, created_at=created_at, expires_at=expires_at
        )
    )


def find_session(conn: Connection, session_hash: str) -> tuple[Token, User, str] | None:
    """The token that began it, its user, and when the session ends."""
    row = conn.execute(_BY_SESSION, {"session_hash": session_hash}).first()
    return (_token(row), _owner(row), row.session_expires_at) if row else None


def delete_session(conn: Connection, session_hash: str) -> None:
    conn.execute(sa.delete(sessions).where(sessions.c.session_hash == session_hash))


def delete_sessions_of(conn: Connection, user_name: str) -> None:
    theirs = sa.select(api_tokens.c.token_id).where(api_tokens.c.user_name == user_name)
    conn.execute(sa.delete(sessions).where(sessions.c.token_id.in_(theirs)))


def was_deleted(conn: Connection, name: str) -> bool:
    """Was there a user of this name, who was deleted?"""
    statement = sa.select(audit.c.entry_id).where(audit.c.subject == f"user:{name}", audit.c.action == "user.deleted")
    return conn.execute(statement.limit(1)).first() is not None


def delete_sessions_before(conn: Connection, at: str) -> int:
    return conn.execute(sa.delete(sessions).where(sessions.c.expires_at < at)).rowcount


# --- audit ------------------------------------------------------------------------------------------
def note(conn: Connection, entry: AuditEntry) -> None:
    conn.execute(
        sa.insert(audit).values(
            at=entry.at,
            actor=entry.actor,
            action=entry.action,
            subject=entry.subject,
            detail=json.dumps(entry.detail, ensure_ascii=False),
        )
    )


def entries(
    conn: Connection, *, limit: int, before: int | None = None, subject: str | None = None, actor: str | None = None
) -> list[AuditEntry]:
    """Newest first. before: the number of an entry."""
    statement = sa.select(audit).order_by(audit.c.entry_id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit.c.entry_id < before)
    if subject is not None:
        statement = statement.where(audit.c.subject == subject)
    if actor is not None:
        statement = statement.where(audit.c.actor == actor)
    return [
        AuditEntry(row.at, row.actor, row.action, row.subject, json.loads(row.detail), row.entry_id)
        for row in conn.execute(statement)
    ]


def _user(row: Any) -> User:
    return User(
        row.name,
        Role(row.role),
        bool(row.is_enabled),
        row.created_at,
        row.quota_bytes,
        row.quota_files,
        tuple(row.group_names.split()),
    )


def _owner(row: Any) -> User:
    """Of a token's row: enough of the user to say what the token may do."""
    return User(row.user_name, Role(row.role), bool(row.is_enabled), "")


def _token(row: Any) -> Token:
    scopes = frozenset(Scope(word) for word in row.scopes.split())
    token = Token(row.token_id, row.user_name, row.label, scopes, row.created_at)
    return replace(
        token,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
        made_by=row.made_by,
    )


def fact(conn: Connection, name: str) -> str | None:
    """What the installation knows under this name."""
    value: str | None = conn.scalar(sa.select(installation.c.value).where(installation.c.name == name))
    return value


def remember_fact(conn: Connection, name: str, value: str) -> None:
    conn.execute(sa.delete(installation).where(installation.c.name == name))
    conn.execute(sa.insert(installation).values(name=name, value=value))


def has_tokens(conn: Connection) -> bool:
    return conn.scalar(sa.select(api_tokens.c.token_id).limit(1)) is not None
