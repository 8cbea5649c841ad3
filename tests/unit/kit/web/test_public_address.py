"""Addresses that are shown are those by which the reader came."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from app.kit.web.public_address import find_reached_host, find_reached_url, rewrite_link

EVERYWHERE = "http://0.0.0.0:8080"


def request_of(host: str, *, scheme: str = "http", public_url: str | None = None) -> Request:
    app = Starlette()
    settings = SimpleNamespace(public_url=public_url, web_url=public_url or EVERYWHERE)
    app.state.container = SimpleNamespace(settings=settings)
    scope = {"type": "http", "scheme": scheme, "path": "/", "query_string": b"", "server": ("10.0.0.7", 8080)}
    return Request({**scope, "app": app, "headers": [(b"host", host.encode("latin-1"))] if host else []})


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("mill.lan:8080", "mill.lan"),
        ("192.168.1.7:8080", "192.168.1.7"),
        ("[fd00::7]:8080", "fd00::7"),
        ("mill", "mill"),
    ],
)
def test_what_is_shown_leads_to_where_the_reader_came(host: str, name: str) -> None:
    request = request_of(host, scheme="https")
    assert (find_reached_url(request), find_reached_host(request)) == (f"https://{host}", name)
    link = f"{EVERYWHERE}/objects/jobs/a?signature=b"
    assert rewrite_link(request, link) == f"https://{host}/objects/jobs/a?signature=b"


def test_a_public_url_goes_before_what_the_reader_used() -> None:
    request = request_of("10.0.0.7:8080", public_url="https://mill.example")
    assert (find_reached_url(request), find_reached_host(request)) == ("https://mill.example", "mill.example")
    assert rewrite_link(request, "https://mill.example/objects/a") == "https://mill.example/objects/a"


@pytest.mark.parametrize("host", ["", "a b", "x;reboot", "$(reboot)", "a:123456", "a/b", "m\u00fcll", "a@b"])
def test_a_host_that_is_none_is_not_shown_again(host: str) -> None:
    assert find_reached_url(request_of(host)) == EVERYWHERE


def test_a_link_to_another_server_stays_as_it_is() -> None:
    assert rewrite_link(request_of("mill.lan"), "http://s3.lan:9000/objects/a") == "http://s3.lan:9000/objects/a"
