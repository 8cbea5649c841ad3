"""Accounts of the built-in SFTP server, and its facts about itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from app.homes.store.tables import door_accounts, door_facts
from app.kit.sql.rows import row_of, upsert


@dataclass(frozen=True)
class SftpAccount:
    """An account of the built-in SFTP server."""

    user: str
    home: str
    """From the root of the storage."""
    password_hash: str | None
    """None when the password is no longer accepted."""
    is_one_time: bool
    """The password allows nothing but to choose another."""
    keys: tuple[str, ...]
    is_enabled: bool
    quota_bytes: int
    quota_files: int | None = None
    """None for the installation's."""


def put_account(conn: Connection, account: SftpAccount) -> None:
    upsert(conn, door_accounts, row_of(door_accounts, account, user_name=account.user, keys=json.dumps(account.keys)))


def get_account(conn: Connection, user: str) -> SftpAccount | None:
    row = conn.execute(sa.select(door_accounts).where(door_accounts.c.user_name == user)).first()
    if row is None:
        return None
    return SftpAccount(
        row.user_name,
        row.home,
        row.password_hash,
        bool(row.is_one_time),
        tuple(json.loads(row.keys)),
        bool(row.is_enabled),
        row.quota_bytes,
        row.quota_files,
    )


def change_account(conn: Connection, user: str, **fields: Any) -> bool:
    """fields: home, password_hash, is_one_time, keys, is_enabled, quota_bytes, quota_files. False if there is none."""
    if "keys" in fields:
        fields["keys"] = json.dumps(fields["keys"])
    return (
        conn.execute(sa.update(door_accounts).where(door_accounts.c.user_name == user).values(**fields)).rowcount == 1
    )


def delete_account(conn: Connection, user: str) -> bool:
    return conn.execute(sa.delete(door_accounts).where(door_accounts.c.user_name == user)).rowcount == 1


def delete_accounts(conn: Connection) -> None:
    conn.execute(sa.delete(door_accounts))


def put_fact(conn: Connection, name: str, value: str) -> None:
    upsert(conn, door_facts, {"name": name, "value": value})


def facts(conn: Connection) -> dict[str, str]:
    return {row.name: row.value for row in conn.execute(sa.select(door_facts))}
