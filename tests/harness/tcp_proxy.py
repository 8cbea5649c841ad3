"""A TCP proxy that refuses, falls silent, or lets bytes trickle, at a word."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any

from tests.harness.ports import free_port

READ_BYTES = 1 << 16
TRICKLES_PER_S = 20


class TcpProxy:
    """Before 127.0.0.1:target. Open at first; runs in a thread of its own. context: for TLS towards its clients."""

    def __init__(self, target: int, *, context: ssl.SSLContext | None = None) -> None:
        self.target = target
        self._context = context
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._bytes_per_s: int | None = None
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> TcpProxy:
        self._thread.start()
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, *, bytes_per_s: int | None = None) -> None:
        """Pass everything on; bytes_per_s: in each direction of each connection."""
        self._bytes_per_s = bytes_per_s
        self._do(self._open)

    def refuse(self) -> None:
        """Break every connection and take no new ones, as when the server is not running."""
        self._do(self._refuse)

    def fall_silent(self) -> None:
        """Keep and take connections, and pass nothing on, as when the server is frozen."""
        self._do(self._fall_silent)

    def _do(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run_coroutine_threadsafe(action(), self._loop).result(120)

    async def _open(self) -> None:
        self._flows.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._take, "127.0.0.1", self.port, ssl=self._context)

    async def _fall_silent(self) -> None:
        self._flows.clear()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # it was accepted while we were told to refuse
            writer.transport.abort()
            return
        own = asyncio.current_task()
        assert own is not None
        self._connections.add(own)
        far_writer: asyncio.StreamWriter | None = None
        try:
            with suppress(OSError, asyncio.CancelledError):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
                await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))
        finally:
            self._connections.discard(own)
            for end in (writer, far_writer):
                if end is not None:
                    end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            rate = self._bytes_per_s
            data = await reader.read(max(1, rate // TRICKLES_PER_S) if rate else READ_BYTES)
            await self._flows.wait()
            if not data:
                (writer.write_eof if writer.can_write_eof() else writer.close)()  # with TLS there is no half of an end
                return
            writer.write(data)
            await writer.drain()
            if rate:
                await asyncio.sleep(len(data) / rate)
