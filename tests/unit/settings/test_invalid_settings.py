"""What a program says that is started with settings which are not valid: no traceback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.bootstrap.accounts import SecretKeyMissing, prepare_accounts, settings_in
from app.bootstrap.container import Container
from app.bootstrap.sftp import serve_homes
from app.bootstrap.training import read_weights
from app.kit.cli.command import CannotStart
from app.kit.errors import BadInput
from app.settings import Settings, load_settings


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


@pytest.mark.parametrize(
    "text", ["alice", "alice=", "=1", "alice=much", "alice=0", "alice=-1", "alice=inf", "bob=1 alice=nan"]
)
def test_a_weight_of_a_user_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CannotStart, match="is no weight of a user"):
        read_weights(text)


def test_a_key_that_others_need_is_not_made_up(monkeypatch: pytest.MonkeyPatch, container: Container) -> None:
    """A database elsewhere is encrypted with it, and tokens of users are hashed with it."""
    with pytest.raises(SecretKeyMissing, match="a made-up one"):
        prepare_accounts(container.accounts, Settings(accounts=True))
    monkeypatch.setenv("MODELMILL_DATABASE_URL", "postgresql://db/mill")
    with pytest.raises(SecretKeyMissing, match="MODELMILL_DATABASE_URL is"):
        settings_in(None)


def test_where_sftp_is_not_embedded_it_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMILL_SFTP", "off")
    with pytest.raises(CannotStart, match="not embedded"):
        serve_homes()
