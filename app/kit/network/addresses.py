"""Addresses: which are this machine's alone, and where a server that is bound to one is reached; and
networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

ANY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104  # only compared with
"""A server that is bound to one of these listens on every address of its machine."""


def is_loopback(host: str) -> bool:
    """Of an address or a name: can nobody but this machine reach it? An unknown name may be anywhere."""
    bare = host.strip("[]").lower()
    if bare == "localhost":
        return True
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def is_asked_from_here(scope: Mapping[str, Any]) -> bool:
    """Does a program on this machine ask?

    Who asks a server at another than a loopback address comes from that very address, and nobody else can: the answer
    would not reach them.

    Args:
        scope: of ASGI, from a server that believes no proxy's headers.
    """
    client, server = scope.get("client"), scope.get("server")
    if not client:
        return False
    return is_loopback(client[0]) or bool(server and client[0] == server[0])


def reachable_host(bind: str) -> str:
    """The address at which a server on this machine is reached from this machine.

    Args:
        bind: what it listens on, an address or a name.

    Returns:
        An address or a name, an IPv6 address without brackets.
    """
    return bind if bind not in ANY_ADDRESS else "::1" if bind == "::" else "127.0.0.1"


def reachable_url(bind: str, port: int) -> str:
    """As `reachable_host`, as an http URL without a path."""
    host = reachable_host(bind)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def read_networks(text: str) -> tuple[Network, ...]:
    """Networks with commas or blanks between them, as `10.0.0.0/8 fd00::/8`. Raises ValueError."""
    return tuple(ipaddress.ip_network(word) for word in text.replace(",", " ").split())
