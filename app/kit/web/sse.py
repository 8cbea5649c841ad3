"""Server-sent events: a record at every change until it has ended, or only the signal that something changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import redis
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.errors import Unavailable
from app.kit.redis.change_hub import ChangeHub, changed
from app.kit.web.state import AppState

CONTENT_TYPE = "text/event-stream"
SEND_TIMEOUT_S = 10
"""A viewer that receives nothing for this long has gone."""
SHUTDOWN_GRACE_S = 2.0
"""How long a stream may take to end when the web server ends; less than the web server's grace period."""
LOOK_AGAIN_S = 10.0
"""A record is read again after this time even without a notification."""
PAGE_GAP_S = 0.5
"""Minimum time between two signals to a page: some records change more often than a page can show."""
hub_of = AppState[ChangeHub]("hub")


@dataclass(frozen=True)
class EventFrames:
    """A record as events."""

    status: bytes
    """The current state. It is sent only if it differs from the last one sent."""
    last: bytes = b""
    """Sent at the end; empty while the record may change."""


def event_stream(request: Request, frames: AsyncIterator[bytes]) -> Response:
    """Returns the frames as a response; for HEAD only the headers."""
    if request.method == "HEAD":
        return Response(media_type=CONTENT_TYPE)
    hub: Any = hub_of(request)  # serves as an event for the library: see ChangeHub.set
    return EventSourceResponse(
        frames, send_timeout=SEND_TIMEOUT_S, shutdown_event=hub, shutdown_grace_period=SHUTDOWN_GRACE_S
    )


def change_stream(request: Request, *keys: str) -> Response:
    """Sends `changed` at each change of these keys, without data: the page then requests its fragment.

    Args:
        keys: as in ChangeHub.watch.
    """
    return event_stream(request, change_frames(hub_of(request), *keys))


def changes_of(
    *keys: str, guard: Callable[[Request], object] = lambda _: None
) -> Callable[[Request], Awaitable[Response]]:
    """Makes an endpoint with a `change_stream`. It tells that something has changed, which another user's object may
    be, and nothing more about it.

    Args:
        keys: as in ChangeHub.watch.
        guard: refuses callers; runs in a thread.
    """

    async def events(request: Request) -> Response:
        await run_in_threadpool(guard, request)
        return change_stream(request, *keys)

    return events


async def record_frames(
    hub: ChangeHub, key: str, user: str, make: Callable[[], EventFrames], *, gap_s: float
) -> AsyncIterator[bytes]:
    """Sends the record at once and at every change, until it has ended.

    Sends nothing while Redis or the database is unreachable. When this process ends, the stream ends without a final
    event: the viewer reconnects by itself.

    Args:
        make: reads the record; runs in a thread, once for all viewers of this user.
        gap_s: minimum time between two frames.
    """
    with hub.watch(key) as flag:
        sent = b""
        while not hub.is_ending:
            with contextlib.suppress(redis.RedisError, Unavailable):
                frames = await hub.shared(key, user, make)
                if frames.status and frames.status != sent:
                    yield frames.status
                    sent = frames.status
                if frames.last:
                    yield frames.last
                    return
            await asyncio.sleep(gap_s)
            await changed(flag, LOOK_AGAIN_S)


async def change_frames(hub: ChangeHub, *keys: str, gap_s: float = PAGE_GAP_S) -> AsyncIterator[bytes]:
    """Sends one `changed` at each change, until this process ends."""
    with hub.watch(*keys) as flag:
        while not hub.is_ending:
            if await changed(flag, LOOK_AGAIN_S) and not hub.is_ending:
                yield frame("changed", "{}")
                await asyncio.sleep(gap_s)


def frame(event: str, data: str) -> bytes:
    """Returns an event as it is sent; each line of the data becomes a field of its own."""
    return ServerSentEvent(data, event=event).encode()
