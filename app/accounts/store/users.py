"""Users, and the audit log of changes to them."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.accounts.model import AuditEntry, Role, User
from app.accounts.store.tables import api_tokens, audit, users
from app.accounts.store.tokens import token_holds
from app.kit.sql.rows import count_rows, first, from_row, insert_new, row_of

_IS_ADMIN = sa.and_(users.c.role == Role.ADMIN.value, users.c.is_enabled)


def add_user(conn: Connection, user: User) -> bool:
    """False when there is one of this name already."""
    return insert_new(conn, users, row_of(users, user, role=user.role.value))


def lock_user(conn: Connection, name: str) -> User | None:
    """Like get_user; until the transaction ends nobody else changes or deletes the user. SQLite has one writer
    anyway."""
    return first(conn, sa.select(users).where(users.c.name == name).with_for_update(), _user_from_row)


def lock_admins(conn: Connection) -> None:
    """Locks them before one may be removed: two concurrent removals could otherwise each see the other user."""
    conn.execute(sa.select(users.c.name).where(_IS_ADMIN).order_by(users.c.name).with_for_update()).all()


def lock_users_without_quota(conn: Connection) -> list[User]:
    """Users without a limit of their own on bytes or on files, by name, locked as by `lock_user`.

    Call `lock_admins` first, as where one user is changed: two transactions could otherwise wait for each other.
    """
    statement = sa.select(users).where(sa.or_(users.c.quota_bytes.is_(None), users.c.quota_files.is_(None)))
    return [_user_from_row(row) for row in conn.execute(statement.order_by(users.c.name).with_for_update())]


def lock_enabled_users(conn: Connection) -> list[User]:
    """Enabled users, by name, locked as by `lock_user`; call `lock_admins` first, see `lock_users_without_quota`."""
    statement = sa.select(users).where(users.c.is_enabled).order_by(users.c.name).with_for_update()
    return [_user_from_row(row) for row in conn.execute(statement)]


def get_user(conn: Connection, name: str) -> User | None:
    return first(conn, sa.select(users).where(users.c.name == name), _user_from_row)


def enabled_of(conn: Connection, names: Collection[str]) -> set[str]:
    """Those of these names that are existing and enabled users."""
    return set(conn.execute(sa.select(users.c.name).where(users.c.name.in_(names), users.c.is_enabled)).scalars())


def list_users(conn: Connection, *, text: str = "", after: str = "", limit: int) -> list[tuple[User, str | None]]:
    """By name, each with when a token of theirs was last used.

    Args:
        text: part of the name.
        after: a name.
    """
    last_used = (
        sa.select(sa.func.max(api_tokens.c.last_used_at))
        .where(api_tokens.c.user_name == users.c.name)
        .scalar_subquery()
    )
    statement = sa.select(users, last_used.label("last_used_at")).where(users.c.name > after).order_by(users.c.name)
    if text:
        statement = statement.where(users.c.name.contains(text.lower(), autoescape=True))
    return [(_user_from_row(row), row.last_used_at) for row in conn.execute(statement.limit(limit))]


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
    return count_rows(conn, users, _IS_ADMIN)


def count_admin_tokens(conn: Connection, at: str) -> int:
    """Administrators who could sign in at this time."""
    statement = sa.select(sa.func.count()).select_from(api_tokens.join(users)).where(_IS_ADMIN, token_holds(at))
    return int(conn.execute(statement).scalar_one())


def was_deleted(conn: Connection, name: str) -> bool:
    """Whether a user of this name existed and was deleted."""
    statement = sa.select(audit.c.entry_id).where(audit.c.subject == f"user:{name}", audit.c.action == "user.deleted")
    return conn.execute(statement.limit(1)).first() is not None


def _user_from_row(row: Row[Any]) -> User:
    return from_row(
        User, row, role=Role(row.role), is_enabled=bool(row.is_enabled), groups=tuple(row.group_names.split())
    )


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
    """Newest first.

    Args:
        before: the number of an entry.
    """
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
