"""A TCP server in a thread of its own, which leaves no socket open when it ends: base of proxies, gates and links."""

from __future__ import annotations

import asyncio
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tests.harness.ports import free_port
from tests.harness.until import PATIENCE_S


class StreamServer(ABC):
    """Listens on 127.0.0.1:port while it is entered.

    Args:
        port: None: one that is free.
        context: for TLS towards the clients; None: clear text.
    """

    def __init__(self, port: int | None = None, *, context: ssl.SSLContext | None = None) -> None:
        self.port = port or free_port()
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._break_off())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, which is closed once this returns."""

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=self._context)

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to what is behind this server; it is closed with the server at the latest."""
        reader, writer = await asyncio.open_connection(host, port)
        self._writers.add(writer)
        return reader, writer

    async def _break_off(self) -> None:
        """Take no new connections, and end all that there are."""
        if self._server is not None:
            for listening in self._server.sockets:
                self._loop.remove_reader(listening.fileno())
            await asyncio.sleep(0)  # a server that is closed takes over nothing of what it has accepted just now
            self._server.close()
            self._server = None
        own = asyncio.current_task()
        while others := [task for task in asyncio.all_tasks() if task is not own]:
            await asyncio.sleep(0)  # a task that is cancelled before it begins closes nothing
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        for writer in self._writers:
            writer.transport.abort()  # closed only, it would stay open until the other end has read all of it
        self._writers.clear()
        await asyncio.sleep(0)  # they are closed in the next round of the loop

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError, asyncio.CancelledError):
            await self._serve(reader, writer)
        writer.close()
