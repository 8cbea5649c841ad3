"""Networks by their addresses."""

from __future__ import annotations

import ipaddress

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def read_networks(text: str) -> tuple[Network, ...]:
    """Networks with commas or blanks between them, as `10.0.0.0/8 fd00::/8`. Raises ValueError."""
    return tuple(ipaddress.ip_network(word) for word in text.replace(",", " ").split())
