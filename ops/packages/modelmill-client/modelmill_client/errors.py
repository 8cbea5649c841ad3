"""What can go wrong, each with the service's code and with a hint what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class ModelmillError(Exception):
    """Root of all that this package raises. message: the cause in one sentence. hint: what to do about it."""

    code: str = "ERROR"
    can_retry: bool = False

    def __init__(self, message: str, *, hint: str = "", detail: Mapping[str, Any] | None = None) -> None:
        stop = "." if hint and not message.endswith((".", "!", "?", "…")) else ""
        super().__init__(f"{message}{stop} {hint}".strip())
        self.message = message
        self.hint = hint
        self.detail: dict[str, Any] = dict(detail or {})


class BadUrl(ModelmillError):
    """The address of the service is none."""

    code = "BAD_URL"


class NoImages(ModelmillError):
    """There are no pictures and no arrays where they should be."""

    code = "NO_IMAGES"


class Unreachable(ModelmillError):
    """No answer, or none of Modelmill's."""

    code = "UNREACHABLE"
    can_retry = True


class NoStream(Unreachable):
    """Server-sent events do not come through."""

    code = "NO_STREAM"


class Damaged(Unreachable):
    """A file arrived with another SHA-256 than it should have."""

    code = "DAMAGED"


class WaitedEnough(ModelmillError):
    """The time that was given is over; the job goes on."""

    code = "WAITED_ENOUGH"
    can_retry = True


class JobFailed(ModelmillError):
    """The job that was waited for has failed, or was cancelled; code and detail are those of its error."""

    code = "JOB_FAILED"


class ApiError(ModelmillError):
    """The service refused. Its subclasses are found by code, else by status."""

    by_code: ClassVar[dict[str, type[ApiError]]] = {}
    by_status: ClassVar[dict[int, type[ApiError]]] = {}

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(
            str(body.get("message") or f"HTTP {status}"), hint=str(body.get("hint") or ""), detail=body.get("detail")
        )
        self.status = status
        self.code = str(body.get("code") or "API_ERROR")
        self.can_retry = bool(body.get("can_retry"))


class BadInput(ApiError):
    pass


class Unauthorized(ApiError):
    pass


class Forbidden(ApiError):
    pass


class NotFound(ApiError):
    pass


class JobNotFound(NotFound):
    """There is no such job; if it existed, the system was restarted."""


class Conflict(ApiError):
    pass


class TooMany(ApiError):
    pass


class TooManyJobs(TooMany):
    """As many jobs are under way as may be."""


class Unavailable(ApiError):
    pass


ApiError.by_status.update(
    {
        400: BadInput,
        401: Unauthorized,
        403: Forbidden,
        404: NotFound,
        409: Conflict,
        413: BadInput,
        415: BadInput,
        422: BadInput,
        429: TooMany,
        503: Unavailable,
        507: Unavailable,
    }
)
ApiError.by_code.update({"JOB_NOT_FOUND": JobNotFound, "TOO_MANY_JOBS": TooManyJobs})


def error_of(status: int, body: Mapping[str, Any]) -> ApiError:
    """The exception for a refusal.

    Args:
        status: Of HTTP.
        body: code, message, hint, detail, can_retry.
    """
    kind = ApiError.by_code.get(str(body.get("code"))) or ApiError.by_status.get(status, ApiError)
    return kind(status, body)
