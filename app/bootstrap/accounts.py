"""Assembles accounts from the settings: for the web application, for the commands on its database, and for `modelmill
up`.

Light enough for a command: it imports other capabilities only when they must be notified of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from pydantic import SecretStr

from app.accounts.credentials import SecretHasher
from app.accounts.model import Role
from app.accounts.service import Accounts, ActiveWork, OnChange
from app.accounts.service.tokens import KeyCheck
from app.bootstrap.capabilities import CAPABILITIES
from app.bootstrap.encryption import encrypt_secrets, sealer_of
from app.kit.cli.command import CannotStart
from app.kit.files import lasting_key, make_private
from app.kit.sql import Database
from app.kit.sql.migrations import Migrations, upgrade
from app.settings import Settings, load_settings

_SHARED = Path(__file__).parents[1] / "migrations"
MIGRATIONS = Migrations(
    _SHARED, (_SHARED / "versions", *(one.migrations for one in CAPABILITIES if one.migrations is not None))
)
KEY_HINT = "Make one with `openssl rand -hex 32`, give the same to every web process and command, and keep it."


class SecretKeyMissing(CannotStart, code="SECRET_KEY_MISSING"): ...


def open_accounts(
    settings: Settings,
    *,
    on_change: Sequence[OnChange] | None = None,
    works: Sequence[ActiveWork] = (),
    announce: Callable[[Collection[str]], None] = lambda _: None,
) -> Accounts:
    """Assembles accounts with their own database; nothing connects before it is used.

    Args:
        settings: the installation's settings.
        on_change: listeners for changes; by default those of a command.
        works: the kinds of users' running work.
        announce: receives the keys that a transaction changed: see Database.
    """
    from app.bootstrap.events import account_listeners
    from app.bootstrap.notifications import event_listener

    hasher = SecretHasher(settings.secret_key.get_secret_value())
    database = Database(
        settings.database,
        sealer_of(settings, lambda: KeyCheck(database, hasher).check()),
        announce=announce,
        on_event=event_listener(settings),
    )
    if on_change is None:
        on_change = account_listeners(settings)
    return Accounts(database, hasher, on_change=on_change, works=works)


def prepare_accounts(accounts: Accounts, settings: Settings) -> None:
    """Prepares the web server: a persistent key, the database of this version, its secrets encrypted with that key, the
    local user.

    Raises:
        SecretKeyMissing: Accounts are demanded, and there is no persistent key.
        WrongDatabaseVersion: The database is newer than this program.
        DatabaseUnavailable: It does not answer.
        SecretKeyNotSet, OtherSecretKey: As `encrypt_secrets`.
    """
    if settings.demands_accounts and not settings.has_lasting_key:
        raise SecretKeyMissing(
            "MODELMILL_SECRET_KEY is not set: with a made-up one all tokens would end with this process.", hint=KEY_HINT
        )
    upgrade(accounts.database, MIGRATIONS)
    encrypt_secrets(accounts)
    if not settings.demands_accounts:
        accounts.users.ensure(settings.local_user, Role.ADMIN)


def settings_in(data_dir: Path | None, host: str | None = None) -> Settings:
    """The settings of the web server with this data folder, with the key that `modelmill up` stores there.

    Raises:
        SecretKeyMissing: The database, and so the key, is elsewhere.
    """
    settings = load_settings()
    arguments = {"data_dir": data_dir.expanduser().absolute() if data_dir else None, "host": host}
    settings = settings.model_copy(update={name: value for name, value in arguments.items() if value})
    if settings.has_lasting_key:
        return settings
    if settings.database_url.get_secret_value():
        raise SecretKeyMissing("MODELMILL_SECRET_KEY is not set, but MODELMILL_DATABASE_URL is.", hint=KEY_HINT)
    make_private(settings.data_dir)
    key = lasting_key(settings.data_dir)
    return settings.model_copy(update={"secret_key": SecretStr(key)})
