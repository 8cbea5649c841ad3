"""Puts accounts together from the settings: for the web, for the commands on its database, and for `modelmill up`.

Light enough for a command: it imports no other capability before one must hear of what changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from app.accounts.model import Role
from app.accounts.service import Accounts
from app.accounts.token_hashing import SecretHasher
from app.bootstrap.encryption import encrypt_secrets, sealer_of
from app.kit.cli.command import CannotStart
from app.kit.files.private_folders import make_private
from app.kit.sql import Database
from app.kit.sql.migrations import upgrade
from app.settings import Settings, load_settings
from app.standalone.data_folder import DataFolder

if TYPE_CHECKING:
    from app.homes.service.outbox import Kick

MIGRATIONS = Path(__file__).parents[1] / "migrations"
KEY_HINT = "Make one with `openssl rand -hex 32`, give the same to every web process and command, and keep it."


class SecretKeyMissing(CannotStart):
    code = "SECRET_KEY_MISSING"


def open_accounts(
    settings: Settings, *, kick: Kick | None = None, announce: Callable[[Collection[str]], None] = lambda _: None
) -> Accounts:
    """With whoever must hear of changes; nothing connects before it is used. kick: see homes.service.listener."""
    from app.homes.service.outbox import listener

    database = Database(settings.database, sealer_of(settings), announce=announce)
    accounts = Accounts(database, SecretHasher(settings.secret_key.get_secret_value()))
    database.sealer.confirm = accounts.key.check
    accounts.on_change.append(listener(kick, has_door=settings.sftp != "off"))
    return accounts


def prepare_accounts(accounts: Accounts, settings: Settings) -> None:
    """What must be so before the web serves: a lasting key, the database of this version, its secrets encrypted by that
    key, the local user.

    Raises SecretKeyMissing, WrongDatabaseVersion, DatabaseUnavailable, SecretKeyNotSet, OtherSecretKey.
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
    """The settings of the web that keeps its things in this folder, with the key that `modelmill up` keeps there.

    Raises SecretKeyMissing where the database is elsewhere, and so is the key.
    """
    settings = load_settings()
    said = {"data_dir": data_dir.expanduser().absolute() if data_dir else None, "host": host}
    settings = settings.model_copy(update={name: value for name, value in said.items() if value})
    if settings.has_lasting_key:
        return settings
    if settings.database_url.get_secret_value():
        raise SecretKeyMissing("MODELMILL_SECRET_KEY is not set, but MODELMILL_DATABASE_URL is.", hint=KEY_HINT)
    make_private(settings.data_dir)
    key = DataFolder(settings.data_dir, settings.run).secret_key()
    return settings.model_copy(update={"secret_key": SecretStr(key)})
