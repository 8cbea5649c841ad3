"""Which addresses are this machine's alone."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any


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
    """Does a program on this machine ask? scope: of ASGI, from a server that believes no proxy's headers. Who asks a
    server at another than a loopback address comes from that very address, and nobody else can: the answer would not
    reach them."""
    client, server = scope.get("client"), scope.get("server")
    if not client:
        return False
    return is_loopback(client[0]) or bool(server and client[0] == server[0])
