"""Ports that nobody else gets: neither the system's clients, nor another test, nor another run beside this one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 20_000, 32_000
"""Outside of the range from which Linux takes the ports of clients, by lot."""

_reserved: dict[int, int] = {}
"""Port → the descriptor that holds its lock until this process ends."""


def free_port() -> int:
    """One that is free, and reserved for this process: never given twice, whatever runs beside it."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many neighbouring ones."""
    while True:
        first = random.randint(FIRST, LAST - count)
        ports = list(range(first, first + count))
        if all(_reserve(port) for port in ports):
            return ports


def _reserve(port: int) -> bool:
    if port in _reserved:
        return False
    folder = Path(tempfile.gettempdir()) / f"modelmill-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR, 0o600)
    with contextlib.suppress(OSError), socket.socket() as probe:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        probe.bind(("127.0.0.1", port))
        _reserved[port] = lock
        return True
    os.close(lock)
    return False
