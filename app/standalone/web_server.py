"""The web as a part of `modelmill up`: uvicorn in a process that was forked with all of it imported."""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from app.kit.process import memory
from app.main import create_app, prepare
from app.standalone.preloaded_parent import exit_code, fork_to_run

GRACE_S = 5
"""For answers in progress when the web is to end."""
DATE_EVERY_S = 1.0


class Server(uvicorn.Server):
    """Looks once a second, and at once when it is to end, instead of ten times a second: nobody may be there."""

    _ending: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        memory.give_back_later()
        self._ending, self._loop = asyncio.Event(), asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), DATE_EVERY_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._ending is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)


def configured(host: str, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        partial(create_app, is_prepared=True),
        factory=True,
        host=host,
        port=port,
        timeout_graceful_shutdown=GRACE_S,
        access_log=False,
        log_config=None,  # the application's is used: setting up another before would write to memory that is shared
        ws=_websocket,  # type: ignore[arg-type]  # it is called as the class would be
    )


def _websocket(**of_server: Any) -> asyncio.Protocol:
    """Loads the library when the first node connects."""
    from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol

    assert AutoWebSocketsProtocol is not None
    return AutoWebSocketsProtocol(**of_server)


def serve(host: str, port: int) -> None:
    """Until a signal ends it. Exits with 3 when the application cannot start, as uvicorn's command does.

    The database is prepared in a process of its own: what that writes to the memory that is shared goes with it.
    """
    _, status = os.waitpid(fork_to_run(prepare), 0)
    if status:
        raise SystemExit(exit_code(status))
    server = Server(configured(host, port))
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise SystemExit(3)
