"""Has whoever issues tokens the secret key that the web checks them with? The database knows the key's fingerprint."""

from __future__ import annotations

import logging

from app.accounts import store
from app.accounts.errors import WrongSecretKey
from app.accounts.secrets import Keeper
from app.kit.sql import Database

FACT = "secret key fingerprint"
logger = logging.getLogger(__name__)


class KeyCheck:
    def __init__(self, database: Database, keeper: Keeper) -> None:
        self._database = database
        self._keeper = keeper

    def remember(self) -> None:
        """As the key of the web, which starts with it."""
        with self._database.write() as connection:
            known = store.fact(connection, FACT)
            if known == self._keeper.fingerprint:
                return
            store.remember_fact(connection, FACT, self._keeper.fingerprint)
            if known is not None and store.has_tokens(connection):
                logger.warning(
                    "The secret key is another than at the last start: no token or session made before is accepted."
                )

    def check(self) -> None:
        """Raises WrongSecretKey: a token that is hashed with this key would never be accepted."""
        with self._database.read() as connection:
            known = store.fact(connection, FACT)
        if known not in (None, self._keeper.fingerprint):
            raise WrongSecretKey(
                "The web works with another secret key: it would never accept this token.",
                hint="Set MODELMILL_SECRET_KEY to the web's, or give the --data-dir of `modelmill up`.",
            )
