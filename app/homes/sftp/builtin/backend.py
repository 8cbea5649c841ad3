"""The accounts of the built-in SFTP server, whose process reads them at each log-in, and each second those in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.homes import store
from app.homes.model import Quota
from app.homes.sftp.backend import EMBEDDED, NO_QUOTA, SftpEndpoint, no_account
from app.homes.sftp.credentials import hash_password
from app.homes.store import SftpAccount
from app.kit.sql import Database

PORT, FINGERPRINT = "port", "fingerprint"
"""Facts that the process reports when it starts: the port may be another than the one that was set."""


class BuiltinBackend:
    """
    Args:
        host, port: what users are told; the process says which port it really has.
    """

    def __init__(self, database: Database, *, host: str, port: int) -> None:
        self.database = database
        self.host = host
        self.port = port
        self.identity = EMBEDDED

    def create(self, user: str, home: str, password_hash: str, *, quota: Quota = NO_QUOTA) -> None:
        """See `SftpBackend.create`."""
        with self.database.write() as conn:
            present = store.get_account(conn, user)
            keys = present.keys if present else ()
            store.put_account(
                conn, SftpAccount(user, home, password_hash, True, keys, True, quota.size_bytes, quota.files)
            )

    def set_password(self, user: str, password: str, *, is_one_time: bool = False) -> None:
        self._change(user, password_hash=hash_password(password), is_one_time=is_one_time)

    def set_keys(self, user: str, keys: Sequence[str]) -> None:
        self._change(user, keys=list(keys))

    def set_quota(self, user: str, quota: Quota) -> None:
        self._change(user, quota_bytes=quota.size_bytes, quota_files=quota.files)

    def keys(self, user: str) -> list[str]:
        return list(self._find_account(user).keys)

    def needs_new_password(self, user: str) -> bool:
        return self._find_account(user).is_one_time

    def disable(self, user: str) -> None:
        self._change(user, is_enabled=False)

    def enable(self, user: str) -> None:
        self._change(user, is_enabled=True)

    def delete(self, user: str) -> None:
        with self.database.write() as conn:
            store.delete_account(conn, user)

    def info(self, user: str) -> SftpEndpoint:
        with self.database.read() as conn:
            facts = store.facts(conn)
        return SftpEndpoint(self.host, int(facts.get(PORT, self.port)), user, facts.get(FINGERPRINT, ""))

    def _find_account(self, user: str) -> SftpAccount:
        with self.database.read() as conn:
            account = store.get_account(conn, user)
        if account is None:
            raise no_account(user)
        return account

    def _change(self, user: str, **fields: Any) -> None:
        with self.database.write() as conn:
            if not store.change_account(conn, user, **fields):
                raise no_account(user)
