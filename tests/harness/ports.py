"""Ports that nobody else gets: neither the system's clients, nor another test, nor another run beside this one."""

from __future__ import annotations

import random
import socket

FIRST, LAST = 20_000, 32_000
"""Outside of the range from which Linux takes the ports of clients, by lot."""

_reserved: dict[int, int] = {}
"""Port → the descriptor of the socket whose name says that it is taken, until this process ends."""


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


def has_listener(port: int) -> bool:
    """Whether a server takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _reserve(port: int) -> bool:
    """By a name in the kernel's list of UNIX sockets, which one process alone may have, and which is no file."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0modelmill-port-{port}")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        name.close()
        return False
    _reserved[port] = name.detach()
    return True
