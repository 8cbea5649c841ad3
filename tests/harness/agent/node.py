"""A node of one agent in a folder of its own, and the programs that tests have it run."""

from __future__ import annotations

import os
import signal
import sqlite3
from pathlib import Path

import httpx

from tests.harness.forked import Forked
from tests.harness.ports import free_port
from tests.harness.until import PATIENCE_S, until

SERVES = """
import os, socket
with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))) as found:
    while True:
        connection = found.accept()[0]
        connection.recv(65536)
        connection.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
        connection.close()
"""
SLEEPS = "import time; time.sleep(600)"


class Node:
    """The agent edge0 in a folder of its own. http: asks the agent's own server."""

    module = "tests.harness.agent.program"

    def __init__(self, folder: Path, url: str, host: str = "127.0.0.1") -> None:
        self.host, self.data, self.url = host, folder / "edge0", url
        self.port = free_port()
        self.log = folder / "agent.log"
        self.http = httpx.Client(base_url=f"http://{host}:{self.port}", trust_env=False)
        self.process: Forked | None = None

    def start(self, *arguments: str, wait: bool = True, **environment: str) -> None:
        who = ["--name", "edge0", "--side", "edge"]
        where = ["--cloud", self.url, "--listen", f"{self.host}:{self.port}", "--data-dir", str(self.data)]
        told = {**os.environ, "MODELMILL_TOKEN": "", **environment}
        self.process = Forked(f"{self.module}:main", [*who, *where, *arguments], environment=told, log=self.log)
        if wait:
            until(self._is_up)

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def refused(self, *arguments: str, **environment: str) -> str:
        """What it says when it does not start."""
        self.start(*arguments, wait=False, **environment)
        assert self.process is not None
        assert self.process.wait(PATIENCE_S) != 0
        return self.log_text()

    def log_text(self) -> str:
        return self.log.read_text()

    def rows(self, table: str) -> int:
        with sqlite3.connect(self.data / "agent.db") as database:
            count = database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
        database.close()
        return int(count)

    def workers(self) -> list[int]:
        """Pids of all processes that run out of its folder, whoever started them."""
        folder = str(self.data / "work").encode()
        return [int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline") if folder in _read(file)]

    def close(self) -> None:
        """Its workers end with it."""
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGINT)
        self.http.close()

    def _is_up(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self.log_text()
        try:
            return self.http.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False


def _read(file: Path) -> bytes:
    """Empty for a process that is gone, or no more than its exit code."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
