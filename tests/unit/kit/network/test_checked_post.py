"""Why a POST got no answer."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from app.kit.network.addresses import read_networks
from app.kit.network.checked_post import NotSent, http_post


def test_a_broken_connection_is_said_in_words_and_not_by_the_name_of_an_exception(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def break_off(*_: object, **__: object) -> httpx.Response:
        raise httpx.ReadError("")

    monkeypatch.setattr(httpx.AsyncClient, "send", break_off)
    with pytest.raises(NotSent, match="the connection broke before there was an answer"):
        asyncio.run(http_post("http://127.0.0.1/", b"{}", {}, read_networks("127.0.0.0/8")))
