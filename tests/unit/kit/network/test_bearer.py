"""Which secret a caller shows."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from app.kit.network.bearer import bearer_of, has_bearer


@pytest.mark.parametrize(
    ("values", "secret"),
    [
        (["Bearer abc"], "abc"),
        (["bearer abc"], "abc"),
        (["BEARER  abc"], " abc"),
        ([], ""),
        (["abc"], ""),
        (["Basic abc"], ""),
        (["Bearerabc"], ""),
        (["Bearer abc", "Bearer abc"], ""),
    ],
)
def test_the_secret_is_that_of_the_one_header(values: list[str], secret: str) -> None:
    headers = Headers(raw=[(b"authorization", value.encode()) for value in values])
    assert bearer_of(headers) == secret
    assert has_bearer(headers, "abc") == (secret == "abc")


@pytest.mark.parametrize("value", ["Bearer ", "Bearer", "", "Bearer \xe9"])
def test_nobody_shows_an_empty_secret(value: str) -> None:
    headers = Headers(raw=[(b"authorization", value.encode("latin-1"))])
    assert not has_bearer(headers, "")
    assert not has_bearer(headers, "abc")
