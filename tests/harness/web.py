"""The web in a thread of the test's own process: for tests that need no other process of the product beside it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket
from typing import Any

import uvicorn

from tests.harness.ports import free_port


class Server(uvicorn.Server):
    """Leaves no connection open that outlasts the grace: what a loop has left behind is told of in some later test.
    Closes none for having no requests: while the threads of a test hold up the server's, the next may be on its way."""

    def __init__(self, config: uvicorn.Config) -> None:
        config.timeout_keep_alive = 3600
        super().__init__(config)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)  # in which they are closed


@contextmanager
def served(app: Any, port: int = 0) -> Iterator[str]:
    """Its address, as long as it serves. The server's thread ends with it. port: 0 for any that is free."""
    port = port or free_port()
    config = uvicorn.Config(app, port=port, log_config=None, ws="websockets-sansio", timeout_graceful_shutdown=1)
    server = Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
