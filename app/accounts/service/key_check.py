"""Has this process the secret key of the web, which keys tokens and what is encrypted? The database knows its
fingerprint."""

from __future__ import annotations

import logging

from sqlalchemy import Connection

from app.accounts import store
from app.accounts.errors import WrongSecretKey
from app.accounts.token_hashing import SecretHasher
from app.kit.sql import Database

FACT = "secret key fingerprint"
logger = logging.getLogger(__name__)


class KeyCheck:
    def __init__(self, database: Database, keeper: SecretHasher) -> None:
        self._database = database
        self._keeper = keeper

    def remember(self, conn: Connection) -> None:
        """As the key of the web, which starts with it."""
        known = store.fact(conn, FACT)
        if known == self._keeper.fingerprint:
            return
        store.remember_fact(conn, FACT, self._keeper.fingerprint)
        if known is not None and store.has_tokens(conn):
            logger.warning(
                "The secret key is another than at the last start: no token or session made before is accepted."
            )

    def check(self) -> None:
        """Raises WrongSecretKey: a token that is hashed with this key would never be accepted, nor a secret be read."""
        with self._database.read() as connection:
            known = store.fact(connection, FACT)
        if known not in (None, self._keeper.fingerprint):
            raise WrongSecretKey(
                "The web works with another secret key: it would never accept what is made with this one.",
                hint="Set MODELMILL_SECRET_KEY to the web's, or give the --data-dir of `modelmill up`.",
            )
