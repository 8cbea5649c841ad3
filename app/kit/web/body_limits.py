"""Limits on the duration, speed and number of request bodies in transit.

A body in transit holds a slot, of its sender and of this process, and a thread of the upload pool
(app.kit.web.thread_stream), never one that serves pages. A sender that stalls or trickles gets an error and is
disconnected. The application sets the limits: `upload_limits_of`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.kit.errors import ModelmillError, TooMany
from app.kit.web.state import AppState

RETRY_AFTER_S = 5


@dataclass(frozen=True)
class UploadLimits:
    """The limits of a web process."""

    per_user: int
    """Concurrent bodies of one sender."""
    at_once: int
    """Concurrent bodies of all senders."""
    idle_s: float
    """The longest pause; after this total waiting time the rate is checked, too."""
    least_bytes_per_s: int
    """Over the time spent waiting for the sender."""


upload_limits_of = AppState[UploadLimits]("upload_limits")


class BodyTooSlow(ModelmillError, status=408, code="BODY_TOO_SLOW", can_retry=True):
    """The sender paused for too long, or sent too slowly."""


class TooManyUploads(TooMany, code="TOO_MANY_UPLOADS"):
    """The maximum number of bodies is in transit, for this sender or in total."""


class BodyLimits:
    """Middleware inside Authentication, because limits apply per user; without accounts they apply per address."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._slots = Slots()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = Body(Request(scope), receive, self._slots)

        async def send_and_close(message: Message) -> None:
            """A refused body is still being sent: the connection cannot be reused."""
            if message["type"] == "http.response.start" and body.is_refused:
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        try:
            await self.app(scope, body.receive, send_and_close)
        finally:
            body.release()


class Slots:
    """The bodies in transit in this process."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def take(self, sender: str, *, most: int, most_in_all: int) -> None:
        """Counts an upload of this sender that begins.

        Raises:
            TooManyUploads: The sender, or all together, have as many as they may.
        """
        if self._held[sender] >= most:
            raise TooManyUploads(
                f"{most} uploads of yours are on their way already.",
                hint="Send it when one of them has ended.",
                detail={"retry_after_s": RETRY_AFTER_S},
            )
        if self._held.total() >= most_in_all:
            raise TooManyUploads(
                "The server receives as many uploads as it can.",
                hint="Send it again in a moment.",
                detail={"retry_after_s": RETRY_AFTER_S},
            )
        self._held[sender] += 1

    def give_back(self, sender: str) -> None:
        self._held[sender] -= 1
        if not self._held[sender]:
            del self._held[sender]


class Body:
    """The body of one request. is_refused: it was ended early."""

    def __init__(self, request: Request, receive: Receive, slots: Slots) -> None:
        self.is_refused = False
        self._limits = upload_limits_of(request)
        self._sender = _identify_sender(request)
        self._receive = receive
        self._slots = slots
        self._has_slot = self._is_complete = False
        self._waited_s = 0.0
        self._bytes = 0

    async def receive(self) -> Message:
        if self._is_complete:
            return await self._receive()
        try:
            message = await self._next()
            self._is_complete = not message.get("more_body", False)
            self._bytes += len(message.get("body", b""))
            if not self._is_complete:
                self._check()
        except ModelmillError:
            self.is_refused = True
            raise
        if self._is_complete:
            self.release()
        return message

    def release(self) -> None:
        if self._has_slot:
            self._slots.give_back(self._sender)
            self._has_slot = False

    async def _next(self) -> Message:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._limits.idle_s):
                return await self._receive()
        except TimeoutError:
            raise BodyTooSlow(
                f"Nothing of the body came for {self._limits.idle_s:g} s.", hint="Send it again."
            ) from None
        finally:
            self._waited_s += clock() - began

    def _check(self) -> None:
        """Counts only the time spent waiting for the sender, not for the store."""
        limits = self._limits
        if not self._has_slot:
            self._slots.take(self._sender, most=limits.per_user, most_in_all=limits.at_once)
            self._has_slot = True
        if self._waited_s > limits.idle_s and self._bytes < self._waited_s * limits.least_bytes_per_s:
            raise BodyTooSlow(
                f"The body came at {self._bytes / self._waited_s:.0f} bytes a second, less than "
                f"{limits.least_bytes_per_s}.",
                hint="Send it over a faster line.",
            )


def _identify_sender(request: Request) -> str:
    caller = getattr(request.state, "caller", None)
    if caller is not None:
        return f"node {caller.node}" if caller.node else f"user {caller.user}"
    return f"address {request.client.host}" if request.client else ""
