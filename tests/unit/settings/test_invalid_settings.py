"""What a program says that is started with settings which are not valid: no traceback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.kit.errors import BadInput
from app.settings import load_settings


@pytest.fixture(autouse=True)
def unread() -> Iterator[None]:
    load_settings.cache_clear()
    yield
    load_settings.cache_clear()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PORT", "abc", "MODELMILL_PORT: Input should be a valid integer"),
        ("NOTIFICATION_NETWORKS", "[]", "MODELMILL_NOTIFICATION_NETWORKS: '\\[\\]' does not appear to be"),
        ("DATABASE_URL", "mysql://me@db/mill", "MODELMILL_DATABASE_URL: must begin with sqlite:/// or"),
        ("TOOLCHAINS", "host", "MODELMILL_TOOLCHAINS is not valid JSON$"),
    ],
)
def test_the_variable_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str) -> None:
    monkeypatch.setenv(f"MODELMILL_{variable}", value)
    with pytest.raises(BadInput, match=f"^{message}") as raised:
        load_settings()
    assert raised.value.hint


def test_a_default_that_depends_on_another_setting_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMILL_ARCHIVE_DAYS", "-1")
    with pytest.raises(BadInput, match=r"^MODELMILL_ARCHIVE_DAYS: [^;]+$"):
        load_settings()
