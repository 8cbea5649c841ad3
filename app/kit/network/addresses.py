"""Addresses: loopback addresses, the address at which a bound server can be reached, and networks."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

ANY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104  # only compared with
"""A server bound to one of these listens on every address of its machine."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address or name. An unknown name may be anywhere."""
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
    """Whether the request comes from a program on this machine.

    A request from this machine to a non-loopback address comes from that same address. Nobody else can use it as a
    source, because the answer would not reach them.

    Args:
        scope: the ASGI scope, from a server that trusts no proxy headers.
    """
    client, server = scope.get("client"), scope.get("server")
    if not client:
        return False
    return is_loopback(client[0]) or bool(server and client[0] == server[0])


def reachable_host(bind: str) -> str:
    """Returns the address at which this machine reaches one of its own servers.

    Args:
        bind: the address or name it listens on.

    Returns:
        An address or a name, an IPv6 address without brackets.
    """
    return bind if bind not in ANY_ADDRESS else "::1" if bind == "::" else "127.0.0.1"


def reachable_url(bind: str, port: int) -> str:
    """Returns `reachable_host` as an http URL without a path."""
    return f"http://{host_and_port(reachable_host(bind), port)}"


def host_and_port(host: str, port: int) -> str:
    """Returns them as in a URL: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def read_networks(text: str) -> tuple[Network, ...]:
    """Parses networks separated by commas or spaces, such as `10.0.0.0/8 fd00::/8`.

    Raises:
        ValueError: One of them is no network, or has bits set after its prefix.
    """
    return tuple(ipaddress.ip_network(word) for word in text.replace(",", " ").split())


CREDENTIALS = re.compile(r"(user(?:name)?|pass(?:wd|word|phrase)?|pwd|streamid)=[^&/?#]*", re.IGNORECASE)
"""Credentials in the path, as in some cameras' URLs: `/user=admin&password=…&channel=1`. The streamid of SRT may
have them, too."""


def without_credentials(pattern: str) -> str:
    """Returns a URL or pattern without user and password, including those that a camera expects in the path.

    A password with a `/` that is not encoded as %2F looks like a host and a path: everything before its `@` is removed.
    """
    scheme, is_url, rest = pattern.partition("://")
    if not is_url:
        return pattern
    rest = re.sub(r"^[^/]*@", "", rest)
    rest = re.sub(r"^[^?]*@", "…@", rest)
    return f"{scheme}://" + CREDENTIALS.sub(r"\1=…", rest)
