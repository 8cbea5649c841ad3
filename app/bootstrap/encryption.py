"""The encryption of database columns: from the settings, for the web application, its controllers and commands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module

from sqlalchemy import MetaData

from app.accounts.service import Accounts
from app.bootstrap.capabilities import CAPABILITIES
from app.kit.sql import Sealer, metadata
from app.kit.sql.encryption import renew_rows, seal_rows
from app.settings import Settings

logger = logging.getLogger(__name__)


def sealer_of(settings: Settings, confirm: Callable[[], None]) -> Sealer:
    """By a made-up key nothing is encrypted: it would be lost with this process.

    Args:
        confirm: see Sealer.
    """
    return Sealer(settings.secret_key.get_secret_value() if settings.has_lasting_key else None, confirm)


def encrypt_secrets(accounts: Accounts) -> None:
    """This key becomes the installation's, if all that is encrypted can be read with it.

    Raises SecretKeyNotSet, OtherSecretKey; nothing has changed then.
    """
    database = accounts.database
    database.sealer.trust()
    with database.write() as conn:
        count = seal_rows(conn, _all_tables())
        accounts.key.remember(conn)
    if count:
        database.wipe()
        logger.info("%d secrets that an older version left in the database are encrypted now.", count)


def renew_secrets(accounts: Accounts) -> int:
    """This key becomes the installation's, and secrets that it cannot open are replaced by new ones. How many.

    Raises SecretKeyNotSet.
    """
    database = accounts.database
    database.sealer.trust()
    with database.write() as conn:
        count = renew_rows(conn, _all_tables())
        seal_rows(conn, _all_tables())
        accounts.key.remember(conn)
    return count


def _all_tables() -> MetaData:
    """Of every capability."""
    for capability in CAPABILITIES:
        for module in capability.tables:
            import_module(module)
    return metadata
