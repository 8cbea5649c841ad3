"""Timestamps from inside a process, for `ops/bench hops`: what it says to Redis, and when its actors begin and end.

Hooked in below the Redis client, so the product's code is not touched and no command escapes. Each event is a line in
a file of the process; the clock is CLOCK_MONOTONIC, the same for all processes of the host. It costs 2-3 µs an event.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
import re
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import dramatiq
import hiredis
from dramatiq.brokers import redis as stock_broker
from redis.connection import AbstractConnection

import app.kit
from app.kit.redis.connections import RedisConnection

BACKGROUND = "background"
"""The role of threads that wait for no job: heartbeats, Dramatiq's queues of delayed messages."""
SEND, REPLY, MARK = "send", "reply", "mark"
RECORD_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
FIRST_WORDS = 12
"""The number of parts of a command that are read, including a script's keys and first arguments."""


class Event(NamedTuple):
    """An event. `at_ns`: monotonic nanoseconds. `commands`: the number in the round trip; 0 for replies and marks."""

    at_ns: int
    role: str
    kind: str
    label: str
    commands: int


class Trace:
    """The writer of a process's events. It writes nothing until it is opened with the role of the process."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._scripts = _script_names()
        self._pending: dict[int, tuple[str, int]] = {}  # connection → label, replies still to come

    def open(self, folder: Path, role: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(folder / f"{role}-{os.getpid()}.trace", flags, 0o600)

    def mark(self, label: str) -> None:
        self._write(MARK, label, 0)

    def install(self) -> None:
        """Listens to every Redis connection of this process."""
        send, read = AbstractConnection.send_packed_command, AbstractConnection.read_response

        def traced_send(connection: AbstractConnection, command: Any, *args: Any, **kwargs: Any) -> None:
            packed = command if isinstance(command, str) else b"".join(command)
            self._sent(connection, packed if isinstance(packed, bytes) else packed.encode())
            send(connection, command, *args, **kwargs)

        def traced_read(connection: AbstractConnection, *args: Any, **kwargs: Any) -> Any:
            answer = read(connection, *args, **kwargs)
            self._answered(connection)
            return answer

        line_send, line_receive = RedisConnection.send, RedisConnection.receive

        def traced_line_send(line: RedisConnection, commands: list[Any]) -> None:
            self._sent(line, b"".join(hiredis.pack_command(command) for command in commands))
            line_send(line, commands)

        def traced_line_receive(line: RedisConnection) -> Any:
            answer = line_receive(line)
            self._answered(line)
            return answer

        RedisConnection.send = traced_line_send  # type: ignore[method-assign, assignment]
        RedisConnection.receive = traced_line_receive  # type: ignore[method-assign, assignment]
        AbstractConnection.send_packed_command = traced_send  # type: ignore[method-assign, assignment]
        AbstractConnection.read_response = traced_read  # type: ignore[method-assign, assignment]

    def _sent(self, connection: object, packed: bytes) -> None:
        commands = parse(packed)
        label = " + ".join(dict.fromkeys(self._label(words) for words in commands))
        if threading.current_thread().name.startswith("heartbeat") or ".DQ" in label:
            label = BACKGROUND
        before = self._pending.get(id(connection), ("", 0))[1]  # sent ahead, with the reply still to come
        self._pending[id(connection)] = (label, before + len(commands))
        self._write(SEND, label, len(commands))

    def _answered(self, connection: object) -> None:
        label, missing = self._pending.get(id(connection), ("message", 1))
        if missing > 1:
            self._pending[id(connection)] = (label, missing - 1)
        else:
            self._pending.pop(id(connection), None)
            self._write(REPLY, label, 0)

    def _label(self, words: list[bytes]) -> str:
        """Returns a command with its first key; a script by its name in the code; Dramatiq's by its command."""
        name = words[0].decode(errors="replace").upper()
        if name != "EVALSHA":
            key = b" ".join(words[1:2]).decode(errors="replace")
            return f"{name} {RECORD_ID.sub('<id>', key)}".strip()
        script = self._scripts.get(words[1].decode(), words[1][:6].decode())
        if script != "dispatch":
            return script
        after_keys = 3 + int(words[2])
        return f"{words[after_keys].decode()} {words[after_keys + 2].decode()}"

    def _write(self, kind: str, label: str, commands: int) -> None:
        if self._file is not None:
            os.write(self._file, f"{time.monotonic_ns()}\t{kind}\t{label}\t{commands}\n".encode())


class MarkActors(dramatiq.Middleware):
    """Marks the moments that Dramatiq knows. The file is opened once the process knows its queue."""

    def __init__(self, trace: Trace, folder: Path) -> None:
        self.trace = trace
        self.folder = folder

    def before_worker_boot(self, broker: dramatiq.Broker, worker: Any) -> None:
        self.trace.open(self.folder, "+".join(sorted(worker.consumer_whitelist)))

    def before_process_message(self, broker: dramatiq.Broker, message: Any) -> None:
        self.trace.mark("actor begins")

    def after_process_message(self, broker: dramatiq.Broker, message: Any, **_: object) -> None:
        self.trace.mark("actor ended")


def read_events(folder: Path) -> list[Event]:
    """Returns the events of all processes, in order."""
    events = []
    for path in folder.glob("*.trace"):
        role = path.stem.rpartition("-")[0]
        for line in path.read_text().splitlines():
            at_ns, kind, label, commands = line.split("\t")
            events.append(Event(int(at_ns), BACKGROUND if label == BACKGROUND else role, kind, label, int(commands)))
    return sorted(events)


def parse(packed: bytes) -> list[list[bytes]]:
    """Returns the commands of a request as Redis reads them, each cut to its first words."""
    commands, at = [], 0
    while at < len(packed):
        end = packed.index(b"\r\n", at)
        count, at = int(packed[at + 1 : end]), end + 2
        words = []
        for number in range(count):
            end = packed.index(b"\r\n", at)
            size = int(packed[at + 1 : end])
            if number < FIRST_WORDS:
                words.append(packed[end + 2 : end + 2 + size])
            at = end + 2 + size + 2
        commands.append(words)
    return commands


def _script_names() -> dict[str, str]:
    """Returns sha → name of every script in the kit (the name of its constant) and in Dramatiq."""
    kit = (importlib.import_module(entry.name) for entry in pkgutil.walk_packages(app.kit.__path__, "app.kit."))
    named = {sha: name for module in kit for sha, name in _constants(module)}
    return named | {_sha(text): name for name, text in stock_broker._scripts.items()}


def _constants(module: ModuleType) -> Iterable[tuple[str, str]]:
    for name, value in vars(module).items():
        if name.isupper() and isinstance(value, str) and "redis.call" in value:
            yield _sha(value.encode()), name.strip("_").lower()


def _sha(text: bytes) -> str:
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()
