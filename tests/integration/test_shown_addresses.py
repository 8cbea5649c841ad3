"""A web that listens on every address shows those by which its readers come, unless it was told its public URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from app.accounts.model import Role
from app.settings import Settings
from tests.harness.users import Within, within

READERS = "http://mill.lan:8080"


@contextmanager
def everywhere(settings: Settings, base: str = READERS, **more: Any) -> Iterator[Within]:
    """The web of an administrator who reaches it at `base`."""
    with within(settings.model_copy(update={"host": "0.0.0.0", "port": 8080, **more})) as web:
        accounts = web.app.state.container.accounts
        accounts.users.create("alice", Role.ADMIN, by="test")
        _, token = accounts.tokens.issue("alice", by="test")
        yield Within(web.app, base, Authorization=f"Bearer {token}")


def shown(web: Within) -> dict[str, str]:
    """The beginnings of all that leads back to the server."""
    node = web.post("/neptune/nodes", json={"name": "edge0", "side": "edge"}).json()["command"]
    link = web.post("/uploads/presign", json={"model": True, "images": False}).json()["model"]["url"]
    data = web.get("/ui/data", headers={"Accept": "text/html"}).text
    host = web.get("/api/v2/me").json()["data"]["sftp"]["host"]
    assert f"alice@{host}" in data
    assert "0.0.0.0" not in data
    return {"cloud": node.partition("--cloud ")[2], "link": link.partition("/objects/")[0], "sftp": host}


def test_addresses_are_those_that_the_reader_used(settings: Settings) -> None:
    with everywhere(settings) as web:
        assert shown(web) == {"cloud": "ws://mill.lan:8080", "link": READERS, "sftp": "mill.lan"}


def test_a_signed_link_works_where_the_reader_came(settings: Settings) -> None:
    with everywhere(settings) as web:
        link = httpx.URL(web.post("/uploads/presign", json={"model": True}).json()["model"]["url"])
        assert web.request("PUT", link.raw_path.decode(), content=b"model").status_code == 200


@pytest.mark.parametrize("base", ["http://10.0.0.7:8080", "http://mill:8080"])
def test_a_public_url_goes_before(settings: Settings, base: str) -> None:
    with everywhere(settings, base, public_url="https://mill.example") as web:
        assert shown(web) == {"cloud": "wss://mill.example", "link": "https://mill.example", "sftp": "mill.example"}


@pytest.mark.parametrize(
    ("more", "host"),
    [
        ({"sftp_public_host": "sftp.lan"}, "sftp.lan"),
        ({"sftp_host": "10.0.0.9"}, "10.0.0.9"),
        ({"sftp_host": "::"}, "mill.lan"),
    ],
)
def test_an_sftp_server_with_a_name_or_an_address_of_its_own_is_shown_by_that(
    settings: Settings, more: dict[str, str], host: str
) -> None:
    with everywhere(settings, **more) as web:
        assert shown(web)["sftp"] == host
