"""A slow line between two programs of this machine: a TCP relay with a round-trip time, a bandwidth and losses.

The same seed loses the same segments. It runs in a thread of its own, so that what is measured may block.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.harness.stream_server import StreamServer

CHUNK_BYTES = 16384
SEGMENT_BYTES = 1460
RETRANSMISSION_S = 0.2
"""What a lost segment costs at least: TCP's shortest time-out."""


@dataclass(frozen=True)
class Line:
    """rtt_s: there and back. bits_per_s: of each direction, shared by all connections; 0: no limit. loss: share of
    segments that must be sent again."""

    rtt_s: float = 0.04
    bits_per_s: float = 5e6
    loss: float = 0.0
    seed: int = 0


class Pace:
    """When what is sent in one direction arrives. Pure: times come in as arguments and go out."""

    def __init__(self, line: Line, direction: int) -> None:
        self._line = line
        self._random = random.Random(f"{line.seed}/{direction}")
        self._free_at = 0.0

    def become(self, line: Line) -> None:
        """For what is handed over from now on."""
        self._line = line

    def arrival(self, size: int, now: float) -> float:
        """Of the last of so many bytes that are handed over now. They wait for what is under way."""
        rate = self._line.bits_per_s
        self._free_at = max(self._free_at, now) + (size * 8 / rate if rate else 0.0)
        segments = -(-size // SEGMENT_BYTES)
        if any(self._random.random() < self._line.loss for _ in range(segments)):
            self._free_at += RETRANSMISSION_S
        return self._free_at + self._line.rtt_s / 2


class Link(StreamServer):
    """Listens on a port of its own (port) and carries to target. bytes_up: towards the target, of all connections."""

    def __init__(self, target: tuple[str, int], line: Line = Line()) -> None:
        super().__init__()
        self._target = target
        self._up, self._down = Pace(line, 0), Pace(line, 1)
        self._open = asyncio.Event()
        self._open.set()
        self.bytes_up = self.bytes_down = 0

    def stall(self, *, is_stalled: bool) -> None:
        """Nothing arrives until it is taken back; nothing is lost, and connections stay."""
        self._call(self._set(is_stalled=is_stalled))

    def become(self, line: Line) -> None:
        """Another line from now on, while connections stay."""
        for pace in (self._up, self._down):
            pace.become(line)

    async def _set(self, *, is_stalled: bool) -> None:
        if is_stalled:
            self._open.clear()
        else:
            self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await self._connect(*self._target)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, back, self._up, self._count_up))
                group.create_task(self._carry(there, writer, self._down, self._count_down))
        except* OSError:  # one of the two is gone: so is the other
            pass
        finally:
            back.close()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pace: Pace, count: Callable[[int], None]
    ) -> None:
        """One direction until its end. Handing over and arriving are two tasks, so that the line is full when it can
        be."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=64)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deliver(under_way, writer))
            while data := await reader.read(CHUNK_BYTES):
                count(len(data))
                await under_way.put((pace.arrival(len(data), self._loop.time()), data))
            await under_way.put((self._loop.time(), b""))

    async def _deliver(self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while (packet := await under_way.get())[1]:
            arrives_at, data = packet
            await asyncio.sleep(max(0.0, arrives_at - self._loop.time()))
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    def _count_up(self, size: int) -> None:
        self.bytes_up += size

    def _count_down(self, size: int) -> None:
        self.bytes_down += size
