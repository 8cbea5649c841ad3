"""What a user and an administrator do with an SFTP account: see where it is, set a password, give keys."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from app.accounts.service.audit_log import note
from app.accounts.service.users import SYSTEM
from app.homes import token_bindings
from app.homes.service.outbox import Outbox, SftpState
from app.homes.sftp.backend import Door, DoorInfo, SftpAccountMissing, SftpOff, SftpUnavailable
from app.homes.sftp.credentials import check_keys, check_password, new_one_time_password
from app.homes.token_bindings import PASSWORD, credential_of
from app.kit.clock import now, to_text
from app.kit.errors import ModelmillError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SftpFacts:
    """What the page Data shows of the door. state: what it has heard of the user so far.

    keys and needs_new_password are None while they cannot be asked for. key_tokens, password_token: ids of the tokens
    with which a key (by its text) or the password ends; what is not there holds until it is removed or replaced.
    """

    info: DoorInfo
    state: SftpState
    keys: list[str] | None
    needs_new_password: bool | None
    key_tokens: dict[str, str]
    password_token: str | None


class SftpAccounts:
    """by: who does it, for the audit. All but facts raise SftpOff, SftpUnavailable, SftpAccountMissing.

    token_id: of the token that asks, or that began the session that asks. What users set for themselves ends with it;
    set again by another token it ends with that one. What an administrator hands to somebody else stands by itself.
    """

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox

    @property
    def is_open(self) -> bool:
        """Has this installation a door?"""
        return self.outbox.door is not None

    def facts(self, user: str) -> SftpFacts:
        """Never fails because SFTPGo is away. Raises SftpOff."""
        door = self._door()
        keys = needs_new_password = None
        with suppress(SftpUnavailable, SftpAccountMissing):
            keys, needs_new_password = door.keys(user), door.needs_new_password(user)
        with self.outbox.database.read() as conn:
            tokens, ended = token_bindings.bindings_of(conn, user), token_bindings.ended_of(conn, user, to_text(now()))
        held = None if keys is None else [key for key in keys if credential_of(key) not in ended]
        key_tokens = {key: tokens[credential_of(key)] for key in held or () if credential_of(key) in tokens}
        password_token = tokens.get(PASSWORD)
        if PASSWORD in ended:
            needs_new_password, password_token = True, None
        return SftpFacts(door.info(user), self.outbox.state(user), held, needs_new_password, key_tokens, password_token)

    def reset_password(self, user: str, *, by: str, token_id: str = "") -> str:
        """A one-time password, told this once."""
        password = new_one_time_password()
        with self._at_door(user) as door, self._bound(user, [PASSWORD], by, token_id):
            door.set_password(user, password, is_one_time=True)
        self._note(by, "door.password_reset", user)
        return password

    def set_password(self, user: str, password: str, *, by: str, token_id: str = "") -> None:
        """Raises BadSftpPassword."""
        check_password(password)
        with self._at_door(user) as door, self._bound(user, [PASSWORD], by, token_id):
            door.set_password(user, password)
        self._note(by, "door.password_set", user)

    def set_keys(self, user: str, keys: Sequence[str], *, by: str, token_id: str = "") -> list[str]:
        """All of them; as they are kept. Raises BadPublicKey."""
        checked = check_keys(keys)
        with self._at_door(user) as door:
            self._replace_keys(door, user, checked, checked, by, token_id)
        return checked

    def add_keys(self, user: str, keys: Sequence[str], *, by: str, token_id: str = "") -> None:
        """Beside those that are there. One of those that is given again ends with this token. Raises BadPublicKey."""
        fresh = check_keys(keys)
        given = set(map(credential_of, fresh))
        with self._at_door(user) as door:
            others = [key for key in door.keys(user) if credential_of(key) not in given]
            self._replace_keys(door, user, check_keys([*others, *fresh]), fresh, by, token_id)

    def remove_key(self, user: str, key: str, *, by: str) -> None:
        """One that is not there is fine."""
        with self._at_door(user) as door:
            self._replace_keys(door, user, [one for one in door.keys(user) if one != key], [], by)

    def end_bound(self, moment: datetime) -> None:
        """Take away what was set with tokens that have ended. For the pulse: the embedded door does not wait for it."""
        if not self.is_open:
            return
        with self.outbox.database.read() as conn:
            users = token_bindings.users_ended(conn, to_text(moment))
        for user in users:
            try:
                with self._at_door(user) as door:
                    self._end_bound(door, user, to_text(moment))
            except SftpUnavailable as error:
                logger.warning("The SFTP door still has what a token of %s set: %s", user, error.message)
                return  # nor would it hear of the others
            except ModelmillError as error:
                logger.warning("The SFTP door still has what a token of %s set: %s", user, error.message)

    def _end_bound(self, door: Door, user: str, at: str) -> None:
        with self.outbox.database.read() as conn:
            ended = token_bindings.ended_of(conn, user, at)
            kept = token_bindings.bindings_of(conn, user).keys() - ended
        with suppress(SftpAccountMissing):
            keys = door.keys(user)
            held = [key for key in keys if credential_of(key) not in ended]
            if held != keys:
                door.set_keys(user, held)
            if PASSWORD in ended:
                door.set_password(user, new_one_time_password(), is_one_time=True)  # that nobody knows
        with self.outbox.database.write() as conn:
            token_bindings.forget_others(conn, user, kept)
            note(conn, SYSTEM, "door.credentials_ended", f"user:{user}", {"count": len(ended)})

    def _replace_keys(
        self, door: Door, user: str, keys: list[str], fresh: list[str], by: str, token_id: str = ""
    ) -> None:
        """fresh: those of them that this token sets."""
        with self._bound(user, list(map(credential_of, fresh)), by, token_id):
            door.set_keys(user, keys)
        with self.outbox.database.write() as conn:
            token_bindings.forget_others(conn, user, [PASSWORD, *map(credential_of, keys)])
            note(conn, by, "door.keys_set", f"user:{user}", {"count": len(keys)})

    @contextmanager
    def _bound(self, user: str, credentials: Sequence[str], by: str, token_id: str) -> Iterator[None]:
        """What is set meanwhile ends with the token. Bound before the door has it: it never has it unbound."""
        token = token_id if by == user else None
        with self.outbox.database.write() as conn:
            before = token_bindings.bindings_of(conn, user)
            token_bindings.bind(conn, user, dict.fromkeys(credentials, token))
        try:
            yield
        except BaseException:
            with self.outbox.database.write() as conn:
                token_bindings.bind(conn, user, {credential: before.get(credential) for credential in credentials})
            raise

    def _door(self) -> Door:
        if self.outbox.door is None:
            raise SftpOff("This installation has no SFTP.", hint="Files go in and out over the page Data.")
        return self.outbox.door

    @contextmanager
    def _at_door(self, user: str) -> Iterator[Door]:
        """When it has heard all of the user, and nobody else changes the account."""
        door = self._door()
        self.outbox.apply(user)
        with self.outbox.turn(user):
            yield door

    def _note(self, by: str, action: str, user: str) -> None:
        with self.outbox.database.write() as conn:
            note(conn, by, action, f"user:{user}")
