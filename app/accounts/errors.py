"""Errors of accounts."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict, NotFound, TooMany, Unauthorized

REFUSED = "This needs a valid token."
REFUSED_HINT = "Send it as 'Authorization: Bearer …', or sign in at /ui/login. An administrator hands out tokens."


class TokenRefused(Unauthorized, code="TOKEN_REFUSED"):
    """One text for every cause, so that it does not reveal which tokens exist."""

    def __init__(self) -> None:
        super().__init__(REFUSED, hint=REFUSED_HINT)


class BadUserName(BadInput, code="BAD_USER_NAME"): ...


class BadGroupName(BadInput, code="BAD_GROUP_NAME"): ...


class UserExists(Conflict, code="USER_EXISTS"): ...


class NameWasUsed(Conflict, code="NAME_WAS_USED"): ...


class BadToken(BadInput, code="BAD_TOKEN"):
    """The requested token is invalid."""


class WrongSecretKey(Conflict, code="WRONG_SECRET_KEY"):
    """Tokens or secrets would be created with a key that the web server does not have."""


class UserNotFound(NotFound, code="USER_NOT_FOUND"): ...


class TokenNotFound(NotFound, code="TOKEN_NOT_FOUND"): ...


class LastAdmin(Conflict, code="LAST_ADMIN"): ...


class UserIsBusy(Conflict, code="USER_IS_BUSY"):
    """The user has active jobs."""


class TooManyLogins(TooMany, code="TOO_MANY_LOGINS"): ...
