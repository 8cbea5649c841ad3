"""Sends changes of users to the SFTP backend: in order for each user, and repeated until it succeeds.

The change is recorded in its own transaction, so neither exists without the other, and an unreachable backend does not
block the creation of users. Each change may be applied twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import Connection

from app.accounts import store as accounts
from app.accounts.model import User
from app.accounts.service import OnChange
from app.homes import store, token_bindings
from app.homes.files import HomeFiles
from app.homes.model import Quota, home_of
from app.homes.sftp.backend import EMBEDDED, SftpAccountMissing, SftpBackend, SftpUnavailable
from app.homes.sftp.credentials import hash_password, new_one_time_password
from app.homes.store import PendingChange
from app.kit.backoff import GrowingPause
from app.kit.clock import happens_within, now, to_text
from app.kit.errors import ModelmillError
from app.kit.lease import hold
from app.kit.sql import Database
from app.kit.sql.lease import SqlLease

LEASE_S = 60.0
"""Longer than any operation under a lease: a process that died with one delays others only briefly."""
WAIT_S = 10.0
POLL_S = 0.05
APPEARS_S = 2.0
PAUSE = GrowingPause(5.0, 600.0)
DEFAULT_QUOTA = "default_quota"
"""Name of the fact that holds the installation's quota of which the accounts were last notified."""
SERVER = "sftp_server"
"""Name of the fact that holds the identity of the SFTP server that was given the accounts."""
Wake = Callable[[int], None]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SftpState:
    """How far the backend has received the changes of a user."""

    waiting: int
    """Number of changes that it has not received."""
    last_error: str | None = None
    """Why, if it was tried."""
    next_try_at: str | None = None

    @property
    def is_done(self) -> bool:
        return self.waiting == 0


def listener(wake: Wake | None = None, *, has_sftp: bool = True) -> OnChange:
    """The listener for changes of accounts; for a new user it returns the one-time password of their SFTP account.

    Args:
        wake: Called with the number of the entry just before the transaction commits.
    """

    def note(conn: Connection, event: str, user: User) -> str | None:
        if event in ("created", "deleted"):  # a reused name keeps nothing of the previous user
            token_bindings.forget_others(conn, user.name)
        password = new_one_time_password() if has_sftp and event == "created" else None
        password_hash = hash_password(password) if password else None
        entry_id = store.add_pending(
            conn,
            user.name,
            event,
            user.quota_bytes,
            to_text(now()),
            quota_files=user.quota_files,
            password_hash=password_hash,
        )
        if wake is not None:
            sa.event.listen(conn, "commit", lambda _: wake(entry_id), once=True)
        return password

    return note


class Outbox:
    """backend None: this installation has no SFTP, and only the home itself is made."""

    def __init__(self, database: Database, backend: SftpBackend | None, files: HomeFiles) -> None:
        self.database = database
        self.backend = backend
        self.files = files

    def state(self, user: str) -> SftpState:
        with self.database.read() as conn:
            waiting = store.pending(conn, user=user)
        if not waiting:
            return SftpState(0)
        return SftpState(len(waiting), waiting[0].last_error, waiting[0].next_try_at)

    def waiting(self, limit: int = 100) -> list[PendingChange]:
        """Of all users, oldest first: for the operator."""
        with self.database.read() as conn:
            return store.pending(conn, limit=limit)

    def apply(self, user: str) -> None:
        """Applies all changes of this user now.

        Raises:
            ModelmillError: The obstacle, mostly SftpUnavailable.
        """
        if self.state(user).is_done:
            return
        with self.lease(user):
            self._apply_all(user)

    def apply_due(self, moment: datetime, *, entry_id: int | None = None) -> None:
        """For the pulse, and for the message that a change sends: waits for the transaction of entry_id."""
        if entry_id is not None:
            self._await_entry(entry_id)
            moment = now()
        self._add_missed(to_text(moment))
        with self.database.read() as conn:
            users = store.users_due(conn, to_text(moment))
        for user in users:
            try:
                with self.lease(user, wait_s=0):
                    self._apply_all(user)
            except SftpUnavailable as error:
                logger.warning("SFTP was not told of %s: %s", user, error.message)
                return  # nor can the others be sent
            except ModelmillError as error:
                logger.warning("SFTP was not told of %s: %s", user, error.message)

    @contextmanager
    def lease(self, user: str, *, wait_s: float = WAIT_S) -> Iterator[None]:
        """Locks the user's SFTP account against other changes.

        Raises:
            SftpUnavailable: It is locked.
        """
        with hold(SqlLease(self.database, user, ttl_s=LEASE_S), wait_s=wait_s) as is_held:
            if not is_held:
                raise SftpUnavailable(f"The SFTP account of {user} is being changed.", hint="Try again in a moment.")
            yield

    def _apply_all(self, user: str) -> None:
        with self.database.read() as conn:
            entries = store.pending(conn, user=user)
        for entry in entries:
            try:
                self._apply(entry)
            except ModelmillError as error:
                self._fail(entry, error)
                raise
            with self.database.write() as conn:
                store.complete_pending(conn, entry, to_text(now()))

    def _apply(self, entry: PendingChange) -> None:
        user = entry.user
        if entry.event in ("created", "enabled"):
            self.files.create(user)
        if self.backend is None:
            return
        try:
            if entry.event == "created":
                self._create(self.backend, entry)
            elif entry.event == "enabled":
                self.backend.enable(user)
            elif entry.event == "disabled":
                self.backend.disable(user)
            elif entry.event == "deleted":
                self.backend.delete(user)
            else:
                self.backend.set_quota(user, self._get_quota(entry))
        except SftpAccountMissing:  # somebody deleted it in SFTPGo, or this server is a new one
            if entry.event == "enabled":
                self._create(self.backend, entry)

    def _create(self, backend: SftpBackend, entry: PendingChange) -> None:
        """With the password that was handed out, or a random one that is to be reset."""
        password_hash = entry.password_hash or hash_password(new_one_time_password())
        backend.create(entry.user, home_of(entry.user), password_hash, quota=self._get_quota(entry))

    def _fail(self, entry: PendingChange, error: ModelmillError) -> None:
        next_try_at = to_text(now() + timedelta(seconds=PAUSE.of_try(entry.tries)))
        with self.database.write() as conn:
            store.pending_failed(conn, entry, next_try_at=next_try_at, error=error.message)

    def _add_missed(self, at: str) -> None:
        """If the operator has set another quota or another SFTP server, adds a change for each user that it concerns.

        Args:
            at: text in ISO 8601; the changes are due then.
        """
        if self.backend is None:
            return
        quota = self.files.options.quota()
        default = f"{quota.size_bytes} bytes, {quota.files} files"
        self._add_for_users(DEFAULT_QUOTA, default, "changed", accounts.lock_users_without_quota, at)
        self._add_for_users(SERVER, self.backend.identity, "enabled", accounts.lock_enabled_users, at)

    def _add_for_users(
        self, fact: str, value: str, event: str, lock_users: Callable[[Connection], list[User]], at: str
    ) -> None:
        with self.database.read() as conn:
            if store.facts(conn).get(fact) == value:
                return
        with self.database.write() as conn:
            accounts.lock_admins(conn)
            users = lock_users(conn)
            before = store.facts(conn).get(fact)
            if before == value:  # another process was first
                return
            if fact == SERVER and (before or value != EMBEDDED):  # keys that users remove elsewhere must not come back
                store.delete_accounts(conn)
            for user in users:
                store.add_pending(conn, user.name, event, user.quota_bytes, at, quota_files=user.quota_files)
            store.put_fact(conn, fact, value)

    def _get_quota(self, entry: PendingChange) -> Quota:
        return self.files.options.quota(entry.quota_bytes, entry.quota_files)

    def _await_entry(self, entry_id: int) -> None:
        """Its message may arrive just before its transaction is committed; after a rollback it never arrives."""

        def is_there() -> bool:
            with self.database.read() as conn:
                return store.has_entry(conn, entry_id)

        happens_within(APPEARS_S, is_there, poll_s=POLL_S)
