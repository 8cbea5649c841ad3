"""What users name is judged by its address, and only what is public is reached."""

from __future__ import annotations

import ipaddress
from typing import Any

import anyio
import pytest

from app.kit.network import public_hosts
from app.kit.network.addresses import read_networks
from app.kit.network.public_hosts import AddressRefused, BadUrl, check_url, is_public, pin_host


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "192.168.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "::127.0.0.1",
    ],
)
def test_an_address_that_is_not_public_is_not_reached(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_a_public_one_is(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_a_network_that_is_allowed_is_reached_and_no_other() -> None:
    allowed = read_networks("10.0.0.0/8, fd00::/8")
    assert is_public(ipaddress.ip_address("10.1.2.3"), allowed)
    assert is_public(ipaddress.ip_address("fd00::1"), allowed)
    assert not is_public(ipaddress.ip_address("192.168.0.1"), allowed)


@pytest.mark.parametrize(
    "url", ["ftp://example.org/x", "https://", "example.org", "https://me@example.org/", "https://a b/", "http://[x/"]
)
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(BadUrl):
        check_url(url, ())


@pytest.mark.parametrize("url", ["http://127.0.0.1/x", "https://[::1]:8443/", "http://169.254.169.254/latest"])
def test_a_private_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(AddressRefused):
        check_url(url, ())


def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        assert (host, port) == ("hooks.example.org", 8443)
        return [(2, 1, 6, "", ("10.0.0.7", port)), (2, 1, 6, "", ("93.184.215.14", port))]

    monkeypatch.setattr(public_hosts.anyio, "getaddrinfo", resolve)
    url, headers, extensions = anyio.run(pin_host, "https://hooks.example.org:8443/a?b=c", ())
    assert url == "https://93.184.215.14:8443/a?b=c"
    assert headers == {"Host": "hooks.example.org:8443"}
    assert extensions == {"sni_hostname": "hooks.example.org"}


def test_a_name_with_private_addresses_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        return [(10, 1, 6, "", ("fe80::1%eth0", port, 0, 2)), (2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(public_hosts.anyio, "getaddrinfo", resolve)
    with pytest.raises(AddressRefused):
        anyio.run(pin_host, "https://inside.example.org/", ())
