"""The address of a stack's Valkey, and whether it runs."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass

from app.kit.clock import happens_within
from app.standalone.ports import LOOPBACK

POLL_S = 0.01


@dataclass(frozen=True)
class Valkey:
    port: int
    password: str

    @staticmethod
    def at(port: int) -> Valkey:
        return Valkey(port, secrets.token_urlsafe(24))

    def url(self, database: int) -> str:
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/{database}"

    def is_up(self) -> bool:
        """Returns whether our server answers there. Another one would refuse the password."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\n".encode())
                return connection.recv(16).startswith(b"+OK")
        except OSError:
            return False

    def wait(self, timeout_s: float) -> bool:
        return happens_within(timeout_s, self.is_up, poll_s=POLL_S)
