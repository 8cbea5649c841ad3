"""Where the web server says it is."""

from __future__ import annotations

import pytest

from app.settings import Settings


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"),
        ("::1", "http://[::1]:8080"),
        ("::", "http://[::]:8080"),
        ("box.local", "http://box.local:8080"),
    ],
)
def test_without_a_public_url_it_is_where_it_listens(host: str, url: str) -> None:
    assert Settings(host=host).web_url == url
