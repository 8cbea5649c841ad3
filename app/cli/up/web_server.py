"""The web as a part of `modelmill up`: uvicorn in a forked process that has imported everything already."""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from app.kit.network.keep_alive import KEEP_ALIVE_S
from app.kit.process import own_process
from app.main import create_app, prepare
from app.standalone.preloaded_parent import exit_code, fork_to_run

GRACE_S = 5
"""Seconds for responses in progress when the web ends."""
DATE_EVERY_S = 1.0


class Server(uvicorn.Server):
    """Checks once a second, and at once when it has to end, instead of ten times a second, since nobody may be using
    it."""

    _ending: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        own_process.give_back_later()
        self._ending, self._loop = asyncio.Event(), asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), DATE_EVERY_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._ending is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)


def configure(host: str, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        partial(create_app, is_prepared=True),
        factory=True,
        host=host,
        port=port,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        access_log=False,
        server_header=False,
        log_config=None,  # the application's logging is used: another set-up before would write to shared memory
        ws=_make_websocket,  # type: ignore[arg-type]  # it is called as the class would be
    )


def _make_websocket(**of_server: Any) -> asyncio.Protocol:
    """Loads the library when the first node connects."""
    from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol

    assert AutoWebSocketsProtocol is not None
    return AutoWebSocketsProtocol(**of_server)


def serve(host: str, port: int) -> None:
    """Serves until a signal. Exits with 3 if the application cannot start, like uvicorn's command.

    The database is prepared in a separate process, so that what this writes to shared memory ends with it.
    """
    _, status = os.waitpid(fork_to_run(prepare), 0)
    if status:
        raise SystemExit(exit_code(status))
    server = Server(configure(host, port))
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise SystemExit(3)
