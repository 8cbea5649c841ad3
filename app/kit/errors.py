"""The error tree. Each class knows its HTTP status, its code and whether trying again can help.

Capabilities derive their own classes; this module owns the roots and the form in which an error
crosses a process boundary (sandbox child → worker → web → client). It must not know any capability.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ModelmillError(Exception):
    """Root of every error that is meant to be read by a user.

    message: one sentence that names the cause. hint: what to do about it. detail: JSON-able facts.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "INTERNAL_ERROR"
    can_retry: ClassVar[bool] = False
    _by_code: ClassVar[dict[str, type[ModelmillError]]] = {}

    def __init__(self, message: str, *, hint: str = "", detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail or {}

    def __init_subclass__(cls) -> None:
        if "code" in cls.__dict__:
            ModelmillError._by_code[cls.code] = cls

    def to_dict(self) -> dict[str, Any]:
        """The JSON body of an error: {"error": {code, message, hint, detail, can_retry}} without the envelope."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "detail": self.detail,
            "can_retry": self.can_retry,
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> ModelmillError:
        """Rebuild an error that was reported by another process; an unknown code becomes the root class."""
        cls = ModelmillError._by_code.get(data["code"], ModelmillError)
        return cls(data["message"], hint=data.get("hint", ""), detail=data.get("detail") or {})


class BadInput(ModelmillError):
    status = 422
    code = "BAD_INPUT"


class BadRequest(ModelmillError):
    status = 400
    code = "BAD_REQUEST"


class Unauthorized(ModelmillError):
    """Who asks has not said who they are. Answered with the challenge to do so."""

    status = 401
    code = "UNAUTHORIZED"


class Forbidden(ModelmillError):
    status = 403
    code = "FORBIDDEN"


class NotFound(ModelmillError):
    status = 404
    code = "NOT_FOUND"


class Conflict(ModelmillError):
    status = 409
    code = "CONFLICT"


class TooLarge(ModelmillError):
    status = 413
    code = "TOO_LARGE"


class TooMany(ModelmillError):
    """detail: retry_after_s, where it is known."""

    status = 429
    code = "TOO_MANY"
    can_retry = True


class Unavailable(ModelmillError):
    """Something this service leans on (Redis, the object store) does not answer now."""

    status = 503
    code = "UNAVAILABLE"
    can_retry = True
