"""What can go wrong, as classes to catch."""

from __future__ import annotations


class EdgeError(Exception):
    """The base of all errors of this package."""


class Unreachable(EdgeError):
    """The agent or the worker does not answer. Is `modelmill node` running on this machine?"""


class ServiceNotRunning(EdgeError):
    """This node has no such service, or its edge worker does not run. The message says why."""


class Refused(EdgeError):
    """The worker refused a request.

    Attributes:
        status: of HTTP.
        code: what it is, e.g. PICTURE_DAMAGED or TOO_MANY.
        can_retry: whether the same request may succeed later.
    """

    def __init__(self, message: str, *, status: int, code: str = "", can_retry: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.can_retry = can_retry
