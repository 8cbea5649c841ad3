"""What a user and an administrator do with an SFTP account: see where it is, set a password, give keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from app.accounts.service.ledger import note
from app.homes.door.base import (
    Door,
    DoorAccountMissing,
    DoorInfo,
    DoorOff,
    DoorUnavailable,
    check_password,
    new_one_time_password,
)
from app.homes.door.public_keys import check_keys
from app.homes.service.outbox import DoorState, Outbox


@dataclass(frozen=True)
class DoorFacts:
    """What the page Data shows of the door. state: what it has heard of the user so far.

    keys and needs_new_password are None while they cannot be asked for.
    """

    info: DoorInfo
    state: DoorState
    keys: list[str] | None
    needs_new_password: bool | None


class Doorway:
    """by: who does it, for the audit. All but facts raise DoorOff, DoorUnavailable, DoorAccountMissing."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox

    @property
    def is_open(self) -> bool:
        """Has this installation a door?"""
        return self.outbox.door is not None

    def facts(self, user: str) -> DoorFacts:
        """Never fails because SFTPGo is away. Raises DoorOff."""
        door = self._door()
        keys = needs_new_password = None
        with suppress(DoorUnavailable, DoorAccountMissing):
            keys, needs_new_password = door.keys(user), door.needs_new_password(user)
        return DoorFacts(door.info(user), self.outbox.state(user), keys, needs_new_password)

    def reset_password(self, user: str, *, by: str) -> str:
        """A one-time password, told this once."""
        password = new_one_time_password()
        with self._at_door(user) as door:
            door.set_password(user, password, is_one_time=True)
        self._note(by, "door.password_reset", user)
        return password

    def set_password(self, user: str, password: str, *, by: str) -> None:
        """Raises BadDoorPassword."""
        check_password(password)
        with self._at_door(user) as door:
            door.set_password(user, password)
        self._note(by, "door.password_set", user)

    def set_keys(self, user: str, keys: Sequence[str], *, by: str) -> list[str]:
        """All of them; as they are kept. Raises BadPublicKey."""
        checked = check_keys(keys)
        with self._at_door(user) as door:
            door.set_keys(user, checked)
        self._note(by, "door.keys_set", user, count=len(checked))
        return checked

    def _door(self) -> Door:
        if self.outbox.door is None:
            raise DoorOff("This installation has no SFTP.", hint="Files go in and out over the page Data.")
        return self.outbox.door

    @contextmanager
    def _at_door(self, user: str) -> Iterator[Door]:
        """When it has heard all of the user, and nobody else changes the account."""
        door = self._door()
        self.outbox.apply(user)
        with self.outbox.turn(user):
            yield door

    def _note(self, by: str, action: str, user: str, **detail: int) -> None:
        with self.outbox.database.write() as on:
            note(on, by, action, f"user:{user}", dict(detail))
