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
    """A generated key encrypts nothing, because it is lost with this process.

    Args:
        confirm: see Sealer.
    """
    return Sealer(settings.secret_key.get_secret_value() if settings.has_lasting_key else None, confirm)


def encrypt_secrets(accounts: Accounts) -> None:
    """Makes this the installation's key, if it can decrypt everything.

    Raises:
        SecretKeyNotSet: There is no key; nothing has changed.
        OtherSecretKey: A secret was encrypted with another one; nothing has changed.
    """
    database = accounts.database
    database.sealer.trust()
    with database.write() as conn:
        count = seal_rows(conn, _collect_tables())
        accounts.key.remember(conn)
    if count:
        database.wipe()
        logger.info("%d secrets that an older version left in the database are encrypted now.", count)


def renew_secrets(accounts: Accounts) -> int:
    """Makes this the installation's key, and replaces secrets that it cannot decrypt. Returns their number.

    Raises:
        SecretKeyNotSet: There is no key.
    """
    database = accounts.database
    database.sealer.trust()
    with database.write() as conn:
        count = renew_rows(conn, _collect_tables())
        seal_rows(conn, _collect_tables())
        accounts.key.remember(conn)
    return count


def _collect_tables() -> MetaData:
    """Of every capability."""
    for capability in CAPABILITIES:
        for module in capability.tables:
            import_module(module)
    return metadata
