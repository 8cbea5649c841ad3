"""A limit on what is read from a server that somebody else runs, since it may answer endlessly."""

from __future__ import annotations

import socket
from typing import Any

MOST_BYTES = 16 << 20
"""Far more than any receiver answers to a batch."""
TOO_LONG = f"it answers more than {MOST_BYTES >> 20} MiB"


class AnswerTooLong(OSError):
    """The server has sent more than is read."""


class AnswerLimit:
    """Counts what a server sends."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    @property
    def is_spent(self) -> bool:
        return self._left < 0

    def spend(self, count: int) -> None:
        """Counts so many bytes of the answer.

        Raises:
            AnswerTooLong: They exceed the limit.
        """
        self._left -= count
        if self.is_spent:
            raise AnswerTooLong(TOO_LONG)


class BoundedSocket(socket.socket):
    """A connected socket that reads at most MOST_BYTES; beyond them, reading raises AnswerTooLong."""

    def __init__(self, connected: socket.socket) -> None:
        """Takes the connection over."""
        timeout_s = connected.gettimeout()
        super().__init__(fileno=connected.detach())
        self.settimeout(timeout_s)
        self._limit = AnswerLimit()

    def recv_into(self, *args: Any, **options: Any) -> int:
        count = super().recv_into(*args, **options)
        self._limit.spend(count)
        return count

    def recv(self, *args: Any, **options: Any) -> bytes:
        data = super().recv(*args, **options)
        self._limit.spend(len(data))
        return data
