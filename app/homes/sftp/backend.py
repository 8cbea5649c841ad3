"""The interface of every SFTP backend. Plain data in and out; it knows no users beyond its own accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.homes.model import Quota
from app.kit.errors import NotFound, Unavailable

NO_QUOTA = Quota()
EMBEDDED = "embedded"
"""The identity of the built-in server."""


class SftpUnavailable(Unavailable, code="DOOR_UNAVAILABLE"):
    """The SFTP server does not answer, or not correctly; a later retry can help."""


class SftpAccountMissing(NotFound, code="DOOR_ACCOUNT_NOT_FOUND"): ...


class SftpOff(NotFound, code="DOOR_OFF"):
    """This installation has no SFTP."""


@dataclass(frozen=True)
class SftpEndpoint:
    """The address of the SFTP server for users."""

    host: str
    port: int
    username: str
    fingerprint: str
    """Of its host key, as OpenSSH writes it; "" while it is not known."""


class SftpBackend(Protocol):
    """The SFTP accounts. Every method may be repeated; all raise SftpUnavailable, and all except create and delete
    raise SftpAccountMissing."""

    @property
    def identity(self) -> str:
        """The server that has the accounts: another server has none of them."""
        ...

    def create(self, user: str, home: str, password_hash: str, *, quota: Quota = NO_QUOTA) -> None:
        """Creates an enabled account, or gives the existing one this home and password.

        Args:
            home: From the root of the storage, users/alice.
            password_hash: Of a one-time password.
        """
        ...

    def set_password(self, user: str, password: str, *, is_one_time: bool = False) -> None:
        """is_one_time: it only allows choosing another."""
        ...

    def set_keys(self, user: str, keys: Sequence[str]) -> None:
        """All the keys that may log in, as OpenSSH writes public keys."""
        ...

    def set_quota(self, user: str, quota: Quota) -> None: ...

    def keys(self, user: str) -> list[str]: ...

    def needs_new_password(self, user: str) -> bool:
        """Whether the password is a one-time one."""
        ...

    def disable(self, user: str) -> None:
        """Nobody can log in, and open sessions end."""
        ...

    def enable(self, user: str) -> None: ...

    def delete(self, user: str) -> None:
        """The account, not the home. Does nothing if there is none."""
        ...

    def info(self, user: str) -> SftpEndpoint: ...


def no_account(user: str) -> SftpAccountMissing:
    return SftpAccountMissing(
        f"SFTP has no account {user} yet.", hint="It is made within a minute of the user; look again then."
    )
