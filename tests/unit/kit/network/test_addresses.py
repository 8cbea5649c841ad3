"""Where a server is reached that listens on an address."""

from __future__ import annotations

import pytest

from app.kit.network.addresses import host_and_port, reachable_host, reachable_url, without_credentials


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


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_ipv6_address_has_brackets_before_a_port(host: str) -> None:
    assert host_and_port(host, 80) == "[::1]:80"


def test_a_pattern_is_named_without_its_password() -> None:
    assert without_credentials("rtsp://user:pass@10.0.0.*/cam*") == "rtsp://10.0.0.*/cam*"
    assert without_credentials("rtsp://user:p@ss@10.0.0.*/cam*") == "rtsp://10.0.0.*/cam*"
    assert without_credentials("srt://10.0.0.7:9?streamid=read:a:ann:pw&passphrase=x&mode=caller") == (
        "srt://10.0.0.7:9?streamid=…&passphrase=…&mode=caller"
    )
    assert without_credentials("/data/a@b") == "/data/a@b"
    assert without_credentials("/data/user=ann") == "/data/user=ann"


@pytest.mark.parametrize(
    "url",
    [
        "rtsp://annie:p@hunter2/x@camera/1",
        "rtsp://annie:12/hunter2@camera/1",
        "rtsp://camera:554/user=annie&password=hunter2&channel=1",
        "rtsp://camera:554/user=annie_password=hunter2_channel=1_stream=0.sdp",
        "http://camera/video?Username=annie&pwd=hunter2",
    ],
)
def test_a_password_is_not_told_wherever_it_stands(url: str) -> None:
    shown = without_credentials(url)
    assert "hunter2" not in shown and "annie" not in shown and "camera" in shown
