"""What every SFTP door can do. Plain data goes in and comes out; a door knows no users beyond its own accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.homes.model import Quota
from app.kit.errors import NotFound, Unavailable

NO_QUOTA = Quota()


class SftpUnavailable(Unavailable):
    """The SFTP server does not answer, or not as it should; trying again later can help."""

    code = "DOOR_UNAVAILABLE"


class SftpAccountMissing(NotFound):
    code = "DOOR_ACCOUNT_NOT_FOUND"


class SftpOff(NotFound):
    """This installation has no SFTP door."""

    code = "DOOR_OFF"


@dataclass(frozen=True)
class DoorInfo:
    """Where the door is. fingerprint: of its host key, as OpenSSH writes it; "" while it is not known."""

    host: str
    port: int
    username: str
    fingerprint: str


class Door(Protocol):
    """Every verb may be repeated. All but create and delete raise SftpAccountMissing; all raise SftpUnavailable."""

    def create(self, user: str, home: str, password_hash: str, *, quota: Quota = NO_QUOTA) -> None:
        """Make an account, or give the one that is there this home and password; enabled.

        home: from the root of the storage, users/alice. password_hash: of a one-time password.
        """
        ...

    def set_password(self, user: str, password: str, *, is_one_time: bool = False) -> None:
        """is_one_time: it lets nobody do anything but choose another."""
        ...

    def set_keys(self, user: str, keys: Sequence[str]) -> None:
        """All the keys that may log in, as OpenSSH writes public keys."""
        ...

    def set_quota(self, user: str, quota: Quota) -> None: ...

    def keys(self, user: str) -> list[str]: ...

    def needs_new_password(self, user: str) -> bool:
        """Is the password a one-time one?"""
        ...

    def disable(self, user: str) -> None:
        """Nobody comes in, and who is in goes."""
        ...

    def enable(self, user: str) -> None: ...

    def delete(self, user: str) -> None:
        """The account, not the home. One that is not there is fine."""
        ...

    def info(self, user: str) -> DoorInfo: ...


def no_account(user: str) -> SftpAccountMissing:
    return SftpAccountMissing(
        f"The SFTP door has no account {user} yet.", hint="It is made within a minute of the user; look again then."
    )
