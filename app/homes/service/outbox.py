"""Tells the door what changed with the users: in order for each of them, again and again until it has heard.

The change is written down in the transaction that makes it, so neither is without the other, and a door that is away
keeps nobody from making users. Applied twice, each change does no harm.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import Connection

from app.accounts.model import User
from app.accounts.service import OnChange
from app.homes import store, token_bindings
from app.homes.files import HomeFiles
from app.homes.model import Quota, home_of
from app.homes.sftp.backend import Door, SftpAccountMissing, SftpUnavailable
from app.homes.sftp.credentials import hash_password, new_one_time_password
from app.homes.store import Pending
from app.kit.backoff import GrowingPause
from app.kit.clock import now, to_text
from app.kit.errors import ModelmillError
from app.kit.sql import Database

TURN_S = 60.0
"""Longer than whatever is done in a turn: whoever died in one holds up nobody for long."""
WAIT_S = 10.0
POLL_S = 0.05
APPEARS_S = 2.0
PAUSE = GrowingPause(5.0, 600.0)
Kick = Callable[[int], None]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SftpState:
    """waiting: how many changes the door has not heard of. last_error: why, if it was tried."""

    waiting: int
    last_error: str | None = None
    next_try_at: str | None = None

    @property
    def is_done(self) -> bool:
        return self.waiting == 0


def listener(kick: Kick | None = None, *, has_door: bool = True) -> OnChange:
    """What Accounts calls at each change; of a new user it returns the one-time password that the door will know.

    kick: gets the number of the entry just before the transaction commits.
    """

    def note(conn: Connection, event: str, user: User) -> str | None:
        if event in ("created", "deleted"):  # a name that is used again has nothing of the one before
            token_bindings.forget_others(conn, user.name)
        password = new_one_time_password() if has_door and event == "created" else None
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
        if kick is not None:
            sa.event.listen(conn, "commit", lambda _: kick(entry_id), once=True)
        return password

    return note


class Outbox:
    """door None: this installation has none, and only the home itself is made."""

    def __init__(self, database: Database, door: Door | None, files: HomeFiles) -> None:
        self.database = database
        self.door = door
        self.files = files

    def state(self, user: str) -> SftpState:
        with self.database.read() as conn:
            waiting = store.pending(conn, user=user)
        if not waiting:
            return SftpState(0)
        return SftpState(len(waiting), waiting[0].last_error, waiting[0].next_try_at)

    def waiting(self, limit: int = 100) -> list[Pending]:
        """Of all users, oldest first: for the operator."""
        with self.database.read() as conn:
            return store.pending(conn, limit=limit)

    def apply(self, user: str) -> None:
        """Tell the door now all that is due of this user. Raises what stands in the way, SftpUnavailable mostly."""
        if self.state(user).is_done:
            return
        with self.turn(user):
            self._apply_all(user)

    def apply_due(self, moment: datetime, *, entry_id: int | None = None) -> None:
        """For the pulse, and for the message that a change sends: entry_id waits for its transaction to be done."""
        if entry_id is not None:
            self._await_entry(entry_id)
            moment = now()
        with self.database.read() as conn:
            users = store.users_due(conn, to_text(moment))
        for user in users:
            try:
                with self.turn(user, wait_s=0):
                    self._apply_all(user)
            except SftpUnavailable as error:
                logger.warning("The SFTP door was not told of %s: %s", user, error.message)
                return  # nor would it hear of the others
            except ModelmillError as error:
                logger.warning("The SFTP door was not told of %s: %s", user, error.message)

    @contextmanager
    def turn(self, user: str, *, wait_s: float = WAIT_S) -> Iterator[None]:
        """Nobody else touches the user's account at the door meanwhile. Raises SftpUnavailable when others do."""
        holder, deadline = uuid.uuid4().hex, time.monotonic() + wait_s
        while not self._take_turn(user, holder):
            if time.monotonic() >= deadline:
                raise SftpUnavailable(f"The SFTP account of {user} is being changed.", hint="Try again in a moment.")
            time.sleep(POLL_S)
        try:
            yield
        finally:
            with self.database.write() as conn:
                store.release_lease(conn, user, holder)

    def _take_turn(self, user: str, holder: str) -> bool:
        moment = now()
        until = moment + timedelta(seconds=TURN_S)
        with self.database.write() as conn:
            return store.acquire_lease(conn, user, holder, at=to_text(moment), until=to_text(until))

    def _apply_all(self, user: str) -> None:
        with self.database.read() as conn:
            entries = store.pending(conn, user=user)
        for entry in entries:
            try:
                self._tell(entry)
            except ModelmillError as error:
                self._failed(entry, error)
                raise
            with self.database.write() as conn:
                store.pending_done(conn, entry, to_text(now()))

    def _tell(self, entry: Pending) -> None:
        user = entry.user
        if entry.event in ("created", "enabled"):
            self.files.create(user)
        if self.door is None:
            return
        try:
            if entry.event == "created":
                self._create(self.door, entry)
            elif entry.event == "enabled":
                self.door.enable(user)
            elif entry.event == "disabled":
                self.door.disable(user)
            elif entry.event == "deleted":
                self.door.delete(user)
            else:
                self.door.set_quota(user, self._quota(entry))
        except SftpAccountMissing:  # somebody deleted it over there
            if entry.event == "enabled":
                self._create(self.door, entry)

    def _create(self, door: Door, entry: Pending) -> None:
        """With the password that was handed out, or one that nobody knows and that is to be reset."""
        password_hash = entry.password_hash or hash_password(new_one_time_password())
        door.create(entry.user, home_of(entry.user), password_hash, quota=self._quota(entry))

    def _failed(self, entry: Pending, error: ModelmillError) -> None:
        next_try_at = to_text(now() + timedelta(seconds=PAUSE.of_try(entry.tries)))
        with self.database.write() as conn:
            store.pending_failed(conn, entry, next_try_at=next_try_at, error=error.message)

    def _quota(self, entry: Pending) -> Quota:
        return self.files.options.quota(entry.quota_bytes, entry.quota_files)

    def _await_entry(self, entry_id: int) -> None:
        """Its message may be here a moment before its transaction is done; if that was undone it never comes."""
        deadline = time.monotonic() + APPEARS_S
        while time.monotonic() < deadline:
            with self.database.read() as conn:
                if store.has_entry(conn, entry_id):
                    return
            time.sleep(POLL_S)
