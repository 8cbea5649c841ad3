"""Ends the event streams of those who may no longer watch: a disabled user, a revoked token, an ended session.

Any other answer is over before that matters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.kit.web.sse import CONTENT_TYPE

LOOK_AGAIN_S = 3.0


async def answer_while(holds: Callable[[], bool], app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the application; its event stream ends soon after the right to it does.

    Args:
        holds: whether it still holds; called in a thread, every few seconds.
    """
    watching: asyncio.Task[None] | None = None
    is_open = False

    async def send_watched(message: Message) -> None:
        nonlocal watching, is_open
        if message["type"] == "http.response.start" and _is_stream(message):
            is_open, watching = True, asyncio.create_task(_watch(holds, whole))
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            is_open = False
        await send(message)

    with anyio.CancelScope() as whole:
        try:
            await app(scope, receive, send_watched)
        finally:
            if watching is not None:
                watching.cancel()
    if whole.cancelled_caught and is_open:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _watch(holds: Callable[[], bool], whole: anyio.CancelScope) -> None:
    while await run_in_threadpool(holds):
        await asyncio.sleep(LOOK_AGAIN_S)
    whole.cancel()


def _is_stream(start: Message) -> bool:
    return Headers(raw=start["headers"]).get("content-type", "").startswith(CONTENT_TYPE)
