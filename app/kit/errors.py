"""The error tree. Each class has its HTTP status, its code and whether a retry can help.

Capabilities derive their own classes; this module owns the roots and the format in which an error
crosses a process boundary (sandbox child → worker → web → client). It depends on no capability.
"""

from __future__ import annotations

from typing import ClassVar

from app.kit.text.json_values import JsonObject

SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")


class ModelmillError(Exception):
    """Root of every error that users see.

    Args:
        message: one sentence that names the cause.
        hint: what to do about it.
        detail: facts as JSON.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "INTERNAL_ERROR"
    can_retry: ClassVar[bool] = False
    _by_code: ClassVar[dict[str, type[ModelmillError]]] = {}

    def __init__(self, message: str, *, hint: str = "", detail: JsonObject | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail or {}

    @property
    def text(self) -> str:
        """The message and, if there is one, the hint, as sentences."""
        stop = "." if self.hint and not self.message.endswith(SENTENCE_ENDS) else ""
        return f"{self.message}{stop} {self.hint}".strip()

    def __init_subclass__(cls, *, status: int | None = None, code: str = "", can_retry: bool | None = None) -> None:
        """
        Args:
            status: HTTP status; default: the parent's, as of the others.
            code: its own; without it, the class is its parent to other processes.
            can_retry: whether a retry can help.
        """
        if status is not None:
            cls.status = status
        if can_retry is not None:
            cls.can_retry = can_retry
        if code:
            cls.code = code
            ModelmillError._by_code[code] = cls

    def to_dict(self) -> JsonObject:
        """The JSON body of an error without the envelope: the value of "error" in {"error": {code, message, hint,
        detail, can_retry}}."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "detail": self.detail,
            "can_retry": self.can_retry,
        }

    @staticmethod
    def from_dict(data: JsonObject) -> ModelmillError:
        """Rebuilds an error reported by another process.

        Args:
            data: made by `to_dict`; an unknown code becomes the root class.

        Raises:
            KeyError: It has no code or no message.
        """
        cls = ModelmillError._by_code.get(data["code"], ModelmillError)
        return cls(data["message"], hint=data.get("hint", ""), detail=data.get("detail") or {})


class BadInput(ModelmillError, status=422, code="BAD_INPUT"):
    """A value has the right form, but cannot be used."""


class BadRequest(ModelmillError, status=400, code="BAD_REQUEST"):
    """The request, a document or a command line has the wrong form."""


class Unauthorized(ModelmillError, status=401, code="UNAUTHORIZED"):
    """The request is not authenticated. The response contains the challenge."""


class Forbidden(ModelmillError, status=403, code="FORBIDDEN"):
    """Who asks is known, and may not do this."""


class NotFound(ModelmillError, status=404, code="NOT_FOUND"):
    """What the request names does not exist, or is not the user's."""


class Conflict(ModelmillError, status=409, code="CONFLICT"):
    """The state of the thing, or its name, does not allow this."""


class TooLarge(ModelmillError, status=413, code="TOO_LARGE"):
    """The request, a file or a value exceeds its limit."""


class TooMany(ModelmillError, status=429, code="TOO_MANY", can_retry=True):
    """detail: retry_after_s, if known."""


class Unavailable(ModelmillError, status=503, code="UNAVAILABLE", can_retry=True):
    """A dependency of this service (Redis, the object store) does not answer."""


class ExtraMissing(ModelmillError, status=501, code="EXTRA_MISSING"):
    """A library that an extra of the package installs is not installed here."""
