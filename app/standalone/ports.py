"""TCP ports of this machine: which are free, and which process holds one."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

from app.kit.cli.command import CannotStart

LOOPBACK = "127.0.0.1"
NEARBY = 20


def free_port(host: str = LOOPBACK) -> int:
    """Returns a port that was free a moment ago."""
    with _bind(host, 0) as probe:
        return int(probe.getsockname()[1])


def next_free_port(host: str, port: int) -> int:
    """Returns this port, or the next free one, or any."""
    for candidate in range(port, min(port + NEARBY, 65536)) if port else ():
        with suppress(OSError), _bind(host, candidate):
            return candidate
    return free_port(host)


def require_free(host: str, port: int) -> None:
    """Checks that the web can listen there.

    Raises:
        CannotStart: It cannot; the message is for the user.
    """
    try:
        _bind(host, port).close()
    except OSError as error:
        raise _in_the_way(error, host, port) from error


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    probe = socket.socket(family, kind, protocol)
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like the server: old connections do no harm
        probe.bind(address)
    except OSError:
        probe.close()
        raise
    return probe


def _in_the_way(error: OSError, host: str, port: int) -> CannotStart:
    if error.errno == errno.EADDRINUSE:
        return CannotStart(
            f"port {port} on {host} is taken by another program",
            hint="Choose another one with --port, or --port 0 for any that is free.",
        )
    if error.errno == errno.EACCES:
        return CannotStart(f"port {port} needs root rights", hint="Choose one above 1023 with --port.")
    return CannotStart(f"cannot listen on {host}: {error.strerror or error}", hint="Check --host.")
