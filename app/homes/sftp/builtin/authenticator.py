"""Who may log in over SFTP, read from SQL by the server's process: the account, and whether its user is still
allowed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.accounts import store as accounts
from app.homes import store, token_bindings
from app.homes.sftp.credentials import BadSftpPassword, agrees, check_password, hash_password
from app.homes.store import SftpAccount
from app.kit.clock import now, to_text
from app.kit.sql import Database

LONGEST_NAME = 32


@dataclass(frozen=True)
class Verdict:
    """The outcome of an attempt with a password."""

    account: SftpAccount | None
    """The owner of the password; None: it was wrong."""
    problem: str = ""
    """The problem of the new password."""


class SftpAuthenticator:
    """Blocks: call it in a thread. Its methods raise DatabaseUnavailable."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def find(self, user: str) -> SftpAccount | None:
        """Returns the account without expired credentials, if it may be used now.

        Disabling a user or revoking a token takes effect at once, before this server is notified.
        """
        if len(user) > LONGEST_NAME:
            return None
        with self.database.read() as conn:
            account = store.get_account(conn, user)
            owner = accounts.get_user(conn, user)
            ended = token_bindings.ended_of(conn, user, to_text(now()))
        if account is None or owner is None or not (account.is_enabled and owner.is_enabled):
            return None
        return _remove_ended(account, ended)

    def accounts(self, users: set[str]) -> dict[str, SftpAccount]:
        """As they are now; without those that may no longer be used."""
        return {account.user: account for account in map(self.find, users) if account is not None}

    def check(self, user: str, password: str) -> Verdict:
        account = self.find(user)
        is_right = agrees(password, account.password_hash if account else None)
        return Verdict(account if is_right else None)

    def change(self, user: str, old: str, new: str) -> Verdict:
        """Changes the password, from a one-time one or any; returns the account. With a reason nothing was changed."""
        verdict = self.check(user, old)
        if verdict.account is None:
            return verdict
        if new == old:
            return replace(verdict, problem="The new password must be another one.")
        try:
            check_password(new)
        except BadSftpPassword as error:
            return replace(verdict, problem=error.message)
        password_hash = hash_password(new)
        with self.database.write() as conn:
            store.change_account(conn, user, password_hash=password_hash, is_one_time=False)
        return Verdict(replace(verdict.account, password_hash=password_hash, is_one_time=False))


def _remove_ended(account: SftpAccount, ended: set[str]) -> SftpAccount:
    keys = tuple(key for key in account.keys if token_bindings.credential_of(key) not in ended)
    return replace(
        account, keys=keys, password_hash=None if token_bindings.PASSWORD in ended else account.password_hash
    )
