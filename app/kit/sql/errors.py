"""What can be wrong with the database as a whole."""

from __future__ import annotations

from app.kit.errors import ModelmillError, Unavailable


class DatabaseUnavailable(Unavailable):
    code = "DATABASE_UNAVAILABLE"


class WrongDatabaseVersion(ModelmillError):
    """The database is newer than this program, or older where it may not be changed."""

    code = "WRONG_DATABASE_VERSION"
