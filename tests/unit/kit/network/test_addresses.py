"""Where a server is reached that listens on an address."""

from __future__ import annotations

import pytest

from app.kit.network.addresses import reachable_host, reachable_url


@pytest.mark.parametrize(
    ("bind", "host", "url"),
    [
        ("0.0.0.0", "127.0.0.1", "http://127.0.0.1:80"),
        ("", "127.0.0.1", "http://127.0.0.1:80"),
        ("::", "::1", "http://[::1]:80"),
        ("fd00::7", "fd00::7", "http://[fd00::7]:80"),
        ("10.0.0.7", "10.0.0.7", "http://10.0.0.7:80"),
        ("box.local", "box.local", "http://box.local:80"),
    ],
)
def test_a_server_on_all_addresses_is_reached_by_the_loopback(bind: str, host: str, url: str) -> None:
    assert (reachable_host(bind), reachable_url(bind, 80)) == (host, url)
