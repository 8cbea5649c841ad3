"""Server-sent events: a record at every change until it has ended, or only the news that something changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import redis
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from app.kit.errors import Unavailable
from app.kit.redis.change_hub import ChangeHub, changed
from app.kit.web.state import AppState

CONTENT_TYPE = "text/event-stream"
SEND_TIMEOUT_S = 10
"""A viewer that takes nothing for so long has gone."""
SHUTDOWN_GRACE_S = 2.0
"""A stream may take so long to end by itself when the web ends; less than the web's own grace."""
LOOK_AGAIN_S = 10.0
"""A record is read again after this time even if nothing was heard of it."""
PAGE_GAP_S = 0.5
"""Least time between two signals to a page: some records change more often than a page can show."""
hub_of = AppState[ChangeHub]("hub")


@dataclass(frozen=True)
class EventFrames:
    """A record as events."""

    status: bytes
    """How it is. Is sent only when it differs from what was sent last."""
    last: bytes = b""
    """What is sent after it, at the end; empty while the record may change."""


def event_stream(request: Request, frames: AsyncIterator[bytes]) -> Response:
    """The frames as a response; to HEAD only that there is a stream."""
    if request.method == "HEAD":
        return Response(media_type=CONTENT_TYPE)
    hub: Any = hub_of(request)  # is an event as far as the library cares: see ChangeHub.set
    return EventSourceResponse(
        frames, send_timeout=SEND_TIMEOUT_S, shutdown_event=hub, shutdown_grace_period=SHUTDOWN_GRACE_S
    )


def change_stream(request: Request, *keys: str) -> Response:
    """`changed` at each change of what has these keys. It says nothing more: the page then asks for its fragment.

    Args:
        keys: as ChangeHub.watch takes them.
    """
    return event_stream(request, change_frames(hub_of(request), *keys))


async def record_frames(
    hub: ChangeHub, key: str, user: str, make: Callable[[], EventFrames], *, gap_s: float
) -> AsyncIterator[bytes]:
    """The record at once and at every change, until it has ended.

    Says nothing while Redis or the database is away. When this process ends, it ends without a word: the viewer comes
    back by itself.

    Args:
        make: reads the record; runs in a thread, once for all viewers of this user.
        gap_s: least time between two frames.
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
    """One `changed` at each change, until this process ends."""
    with hub.watch(*keys) as flag:
        while not hub.is_ending:
            if await changed(flag, LOOK_AGAIN_S) and not hub.is_ending:
                yield frame("changed", "{}")
                await asyncio.sleep(gap_s)


def frame(event: str, data: str) -> bytes:
    return ServerSentEvent(data, event=event).encode()
