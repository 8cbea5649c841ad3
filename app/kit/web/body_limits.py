"""How long, how slowly and how many at a time request bodies may arrive.

A body that is still on its way holds a slot, of its sender and of this process, and whoever reads it holds a thread
of the pool for uploads (app.kit.web.thread_stream), never one that pages are answered by. A sender that stops or
trickles is told so and let go. What an application bears is its own matter: `upload_limits_of`.
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
    """What a web process bears."""

    per_user: int
    """Bodies on their way, of one sender."""
    at_once: int
    """Bodies on their way, of all."""
    idle_s: float
    """The longest pause; after this long of waiting in all the rate counts, too."""
    least_bytes_per_s: int
    """Over the time in which the sender was waited for."""


upload_limits_of = AppState[UploadLimits]("upload_limits")


class BodyTooSlow(ModelmillError):
    """The sender paused for too long, or sent too little."""

    status = 408
    code = "BODY_TOO_SLOW"
    can_retry = True


class TooManyUploads(TooMany):
    """So many bodies are on their way, of this sender or in all."""

    code = "TOO_MANY_UPLOADS"


class BodyLimits:
    """Middleware inside of Authentication, for a limit is a user's; where nobody signs in it is an address's."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._slots = Slots()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = Body(Request(scope), receive, self._slots)

        async def send_and_close(message: Message) -> None:
            """What was refused is still being sent: the connection cannot be used again."""
            if message["type"] == "http.response.start" and body.is_refused:
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        try:
            await self.app(scope, body.receive, send_and_close)
        finally:
            body.release()


class Slots:
    """Bodies that are on their way, in this process."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def take(self, sender: str, *, most: int, most_in_all: int) -> None:
        """Raises TooManyUploads."""
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
    """One request's. is_refused: it was cut off before its end."""

    def __init__(self, request: Request, receive: Receive, slots: Slots) -> None:
        self.is_refused = False
        self._limits = upload_limits_of(request)
        self._sender = _sender(request)
        self._receive = receive
        self._slots = slots
        self._has_slot = self._is_complete = False
        self._waited_s = 0.0
        self._bytes = 0

    async def receive(self) -> Message:
        """Raises BodyTooSlow, TooManyUploads."""
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
        """Only the time counts in which the sender was waited for, not that in which the store was."""
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


def _sender(request: Request) -> str:
    caller = getattr(request.state, "caller", None)
    if caller is not None:
        return f"node {caller.node}" if caller.node else f"user {caller.user}"
    return f"address {request.client.host}" if request.client else ""
