"""Requests to addresses given by users: never to this machine or its private network, unless allowed.

A name is resolved here, each of its addresses is checked, and the connection goes to one that passed: a name server
that answers differently a moment later changes nothing. Redirects are not followed, because they could lead anywhere.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import anyio

from app.kit.errors import BadInput, Forbidden
from app.kit.network.addresses import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
EMBEDDING = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
"""Networks whose addresses end in an IPv4 address."""
LOCAL_TRANSLATION = ipaddress.IPv6Network("64:ff9b:1::/48")
"""The translated IPv4 address is known only to the site's own translator (RFC 8215)."""
SCHEMES = {"http": 80, "https": 443}
NOT_PUBLIC = "is an address of this machine or of its private network."


class BadUrl(BadInput, code="BAD_URL"):
    """The input is not an address that this service can send to."""


class AddressRefused(Forbidden, code="ADDRESS_REFUSED"):
    """The address belongs to this machine or its private network."""


def check_url(url: str, allowed: Sequence[Network]) -> str:
    """Returns the address as it is stored.

    Args:
        url: The user's input.
        allowed: Private networks that may be reached.

    Returns:
        The same without surrounding spaces.

    Raises:
        BadUrl: It is not an http or https address, or contains a user name.
        AddressRefused: Its host is an address that is not public. A name is checked when it is used.
    """
    import httpx  # imported late because it loads much

    text = url.strip()
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
        httpx.URL(text)
    except (ValueError, httpx.InvalidURL):
        raise BadUrl(f"{text[:200]!r} is no address.", hint="Give one as https://example.org/hook.") from None
    if parts.scheme not in SCHEMES or not host or parts.username is not None or not text.isprintable() or " " in text:
        raise BadUrl(
            f"{text[:200]!r} is not an address that messages can be sent to.",
            hint="Give one that begins with https:// or http://, without a user name, as https://example.org/hook.",
        )
    require_public_host(host, allowed)
    return text


def require_public_host(host: str, allowed: Sequence[Network]) -> None:
    """Checks a literal address; a name is checked when it is used.

    Raises:
        AddressRefused: It is not public, and in none of the allowed networks.
    """
    literal = _parse_literal(host)
    if literal is not None:
        _require_public(host, [literal], allowed)


async def pin_host(url: str, allowed: Sequence[Network]) -> tuple[str, dict[str, str], dict[str, str]]:
    """Returns where to send a request to this URL.

    Args:
        url: One that `check_url` passed.
        allowed: Private networks that may be reached.

    Returns:
        The URL with the checked address; the Host header; httpx extensions that check the certificate against the name.

    Raises:
        OSError: The name cannot be resolved.
        AddressRefused: None of its addresses may be reached.
    """
    import httpx

    target = httpx.URL(url)
    port = target.port or SCHEMES[target.scheme]
    address = _choose_address(target.host, await anyio.getaddrinfo(target.host, port, type=socket.SOCK_STREAM), allowed)
    return (
        str(target.copy_with(host=str(address))),
        {"Host": target.netloc.decode("ascii")},
        {"sni_hostname": target.raw_host.decode("ascii")},
    )


def resolve(host: str, port: int, allowed: Sequence[Network]) -> Address:
    """Returns an address of this host that may be used.

    Raises:
        OSError: The name cannot be resolved.
        AddressRefused: None of its addresses may be reached.
    """
    return _choose_address(host, socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), allowed)


def is_public(address: Address, allowed: Sequence[Network] = ()) -> bool:
    """Whether the address may be used: it is public, or in one of these networks."""
    inner = _get_inner(address)
    if any(each.version == network.version and each in network for each in (address, inner) for network in allowed):
        return True
    return address not in LOCAL_TRANSLATION and all(
        each.is_global and not each.is_multicast for each in (address, inner)
    )


def _choose_address(host: str, entries: Sequence[tuple[Any, ...]], allowed: Sequence[Network]) -> Address:
    """Returns the addresses in a result of getaddrinfo."""
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries]
    return _require_public(host, addresses, allowed)


def _get_inner(address: Address) -> Address:
    """Returns the IPv4 address that an IPv6 address represents; otherwise the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    return address.ipv4_mapped or address.sixtofour or _read_embedded(address) or address


def _read_embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Returns the IPv4 address in a translated address (NAT64), or in the old form `::127.0.0.1`."""
    if not any(address in network for network in EMBEDDING):
        return None
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _parse_literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _require_public(host: str, addresses: Sequence[Address], allowed: Sequence[Network]) -> Address:
    """Returns the first allowed address."""
    for address in addresses:
        if is_public(address, allowed):
            return address
    raise AddressRefused(
        f"{host} {NOT_PUBLIC}",
        hint="Messages are sent to public addresses only. The operator can allow networks of the installation's own "
        "with MODELMILL_NOTIFICATION_NETWORKS.",
    )
