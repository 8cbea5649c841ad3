"""The listening socket of the built-in SFTP server. It imports nothing of the server, which may not be loaded yet."""

from __future__ import annotations

import socket

from app.kit.cli.command import CannotStart

BACKLOG = 100


def listen(host: str, port: int) -> list[socket.socket]:
    """Listen on each address that a host has.

    Args:
        host: address or name; empty: every address of this machine.

    Raises:
        CannotStart: The port is taken, or the address is none of this machine.
    """
    sockets = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
    except OSError as error:
        for listening in sockets:
            listening.close()
        raise cannot_listen(host, port, error) from error
    return sockets


def cannot_listen(host: str, port: int, error: OSError) -> CannotStart:
    return CannotStart(
        f"SFTP cannot listen on {host} port {port}: {error.strerror or error}",
        hint="Choose another port with MODELMILL_SFTP_PORT.",
    )
