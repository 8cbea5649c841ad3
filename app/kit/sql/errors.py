"""Errors of the database as a whole."""

from __future__ import annotations

from app.kit.errors import ModelmillError, Unavailable


class DatabaseUnavailable(Unavailable, code="DATABASE_UNAVAILABLE"):
    """The database does not answer, or its disk is full."""


class WrongDatabaseVersion(ModelmillError, code="WRONG_DATABASE_VERSION"):
    """The database is newer than this program, or older and may not be changed."""


class SecretKeyNotSet(Unavailable, code="SECRET_KEY_NOT_SET"):
    """This process needs encrypted data of the database, and has no key."""

    def __init__(self) -> None:
        super().__init__(
            "Secrets of services, video jobs and nodes are encrypted in the database, and this process has no key.",
            hint="Set MODELMILL_SECRET_KEY to the same for the web and the controller; "
            "`openssl rand -hex 32` makes the first one.",
        )


class OtherSecretKey(Unavailable, code="OTHER_SECRET_KEY"):
    """The encrypted data of the database was encrypted with another secret key."""

    def __init__(self) -> None:
        super().__init__(
            "The secrets in the database were encrypted with another secret key than this process has.",
            hint="Give it the MODELMILL_SECRET_KEY that the web had before. If that key is lost or is to be replaced, "
            "stop all parts, run `modelmill db renew-secrets` with the new one, and start them again.",
        )
