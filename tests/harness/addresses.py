"""Addresses of this machine that others could reach."""

from __future__ import annotations

import ipaddress
import socket

import psutil
import pytest


def lan_addresses() -> list[str]:
    """Of IPv4, none of them loopback. Skips where there is none."""
    listed = [
        address.address
        for of_card in psutil.net_if_addrs().values()
        for address in of_card
        if address.family is socket.AF_INET
    ]
    addresses = [address for address in listed if not ipaddress.ip_address(address).is_loopback]
    if not addresses:
        pytest.skip("this machine has no address but those of loopback")
    return addresses
