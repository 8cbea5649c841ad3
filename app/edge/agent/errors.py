"""Why an agent does not start or a worker does not run, told to whoever started it."""

from __future__ import annotations

from app.kit.cli.command import CannotStart
from app.kit.errors import ModelmillError


class TokenRefused(CannotStart):
    """The web does not know the token of this node, or wants an administrator's to register it."""

    code = "NODE_TOKEN_REFUSED"


class NameTaken(CannotStart):
    code = "NODE_NAME_TAKEN"


class NotNow(ModelmillError):
    """What a worker needs cannot be had now. reason: CamelCase, for a condition."""

    code = "NODE_NOT_NOW"
    can_retry = True

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
