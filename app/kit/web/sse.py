"""Server-sent events of one record: how it is at once and at every change, until it has ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import redis
from sse_starlette import ServerSentEvent

from app.kit.errors import Unavailable
from app.kit.redis.change_hub import ChangeHub, changed
from app.kit.web.state import AppState

LOOK_AGAIN_S = 10.0
hub_of = AppState[ChangeHub]("hub")


@dataclass(frozen=True)
class EventFrames:
    """status: how it is, as it is sent; only when it differs from the last. last: what is sent after it; empty while it
    goes on."""

    status: bytes
    last: bytes = b""


async def frames_of(
    hub: ChangeHub, key: str, user: str, make: Callable[[], EventFrames], *, gap_s: float
) -> AsyncIterator[bytes]:
    """make: runs in a thread, once for all viewers of this user; gap_s: least time between two frames.

    Says nothing while Redis or the database is away. When this process ends, it ends without a word: the viewer comes
    back by itself.
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


def frame(event: str, data: str) -> bytes:
    return ServerSentEvent(data, event=event).encode()
