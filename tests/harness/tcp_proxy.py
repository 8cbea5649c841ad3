"""A TCP proxy that refuses, falls silent, or lets bytes trickle, at a word."""

from __future__ import annotations

import asyncio
import ssl

from tests.harness.stream_server import StreamServer

READ_BYTES = 1 << 16
TRICKLES_PER_S = 20


class TcpProxy(StreamServer):
    """Before 127.0.0.1:target. Open at first; runs in a thread of its own. context: for TLS towards its clients."""

    def __init__(self, target: int, *, context: ssl.SSLContext | None = None) -> None:
        super().__init__(context=context)
        self.target = target
        self.address = f"127.0.0.1:{self.port}"
        self._bytes_per_s: int | None = None
        self._flows = asyncio.Event()
        self._flows.set()

    def open(self, *, bytes_per_s: int | None = None) -> None:
        """Pass everything on; bytes_per_s: in each direction of each connection."""
        self._bytes_per_s = bytes_per_s
        self._call(self._open())

    def refuse(self) -> None:
        """Break every connection and take no new ones, as when the server is not running."""
        self._call(self._break_off())

    def fall_silent(self) -> None:
        """Keep and take connections, and pass nothing on, as when the server is frozen."""
        self._call(self._fall_silent())

    async def _open(self) -> None:
        self._flows.set()
        await self._listen()

    async def _fall_silent(self) -> None:
        self._flows.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await self._connect("127.0.0.1", self.target)
        try:
            await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))
        finally:
            far_writer.close()

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
