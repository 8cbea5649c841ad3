"""Columns that are encrypted at rest: a copy of the database without the secret key opens nothing.

Such a column has the type Sealed. It is encrypted with a key that is derived from the installation's secret key, which
is not in the database. Plain text from an older version is readable, and is encrypted when the web server starts: the
migrations themselves have no key, because `modelmill db upgrade` needs none.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Dialect, MetaData, Table
from sqlalchemy.types import TypeDecorator

from app.kit.sql.errors import OtherSecretKey, SecretKeyNotSet

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

MARK = "sealed:"
"""Prefix of an encrypted text; no plain text starts with it."""
PURPOSE = b"modelmill secrets in the database"
_SEALER = "modelmill_sealer"


class Sealer:
    """
    Args:
        key: the installation's secret key; None: this process has none, and cannot use such columns.
        confirm: called before the first use; raises an error if this is not the installation's key.
    """

    def __init__(self, key: str | None, confirm: Callable[[], None] = lambda: None) -> None:
        self._key = key or None
        self.confirm = confirm
        self._is_confirmed = False

    def trust(self) -> None:
        """Confirms that this is the installation's key, or is about to be."""
        self._is_confirmed = True

    def seal(self, text: str) -> str:
        """Encrypts a text.

        Raises:
            SecretKeyNotSet: There is no key.
        """
        return MARK + self._require_cipher().encrypt(text.encode()).decode()

    def unseal(self, text: str) -> str:
        """Decrypts a text; one that was never encrypted is returned unchanged.

        Raises:
            SecretKeyNotSet: There is no key.
            OtherSecretKey: It was encrypted with another one.
        """
        if not text.startswith(MARK):
            return text
        from cryptography.fernet import InvalidToken

        try:
            return self._require_cipher().decrypt(text.removeprefix(MARK).encode()).decode()
        except InvalidToken:
            raise OtherSecretKey from None

    def check(self) -> None:
        """As `confirm`, once, for a process that should end at once if the key is wrong.

        Raises:
            SecretKeyNotSet: There is no key.
        """
        if self._key is None:
            raise SecretKeyNotSet
        if not self._is_confirmed:
            self.confirm()
            self._is_confirmed = True

    def _require_cipher(self) -> Fernet:
        self.check()
        return self._fernet

    @cached_property
    def _fernet(self) -> Fernet:
        """Its library is loaded only if there is something to encrypt: most installations have no such text."""
        from cryptography.fernet import Fernet

        return Fernet(_derive_key(self._key or ""))


class Sealed(TypeDecorator[str]):
    """A text that is readable only with the secret key. The database cannot compare or search it.

    Args:
        renewed: replaces a text whose key is lost; None: its row is deleted.
    """

    impl = sa.Text
    cache_ok = True

    def __init__(self, renewed: Callable[[], str] | None = None) -> None:
        super().__init__()
        self.renewed = renewed

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else sealer_of(dialect).seal(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else sealer_of(dialect).unseal(value)


def new_secret() -> str:
    """Returns a random secret for such a column."""
    return secrets.token_urlsafe(32)


def use(dialect: Dialect, sealer: Sealer) -> None:
    """Sets the sealer of all columns that use this dialect, which belongs to one engine."""
    setattr(dialect, _SEALER, sealer)


def sealer_of(dialect: Dialect) -> Sealer:
    sealer = getattr(dialect, _SEALER)
    assert isinstance(sealer, Sealer)
    return sealer


def seal_rows(conn: Connection, metadata: MetaData) -> int:
    """Encrypts plain texts, and checks that the rest can be read. Returns the number of encrypted texts.

    Raises:
        SecretKeyNotSet: There is no key. Roll back.
        OtherSecretKey: A text was encrypted with another one. Roll back.
    """
    sealer, count = sealer_of(conn.dialect), 0
    for table, column in _iterate_columns(metadata):
        for where, text in _iterate_texts(conn, table, column):
            if text.startswith(MARK):
                sealer.unseal(text)
            else:
                conn.execute(sa.update(table).where(*where).values({column: text}))
                count += 1
    return count


def renew_rows(conn: Connection, metadata: MetaData) -> int:
    """Replaces texts that this key cannot decrypt (see Sealed.renewed), and returns their number.

    Raises:
        SecretKeyNotSet: There is no key.
    """
    sealer, count = sealer_of(conn.dialect), 0
    for table, column in _iterate_columns(metadata):
        for where, text in _iterate_texts(conn, table, column):
            try:
                sealer.unseal(text)
            except OtherSecretKey:
                renewed = column.type.renewed
                change = sa.delete(table) if renewed is None else sa.update(table).values({column: renewed()})
                conn.execute(change.where(*where))
                count += 1
    return count


def _iterate_columns(metadata: MetaData) -> Iterator[tuple[Table, Any]]:
    for table in metadata.sorted_tables:
        for column in table.c:
            if isinstance(column.type, Sealed):
                yield table, column


def _iterate_texts(conn: Connection, table: Table, column: Column[str]) -> list[tuple[list[Any], str]]:
    """Yields the stored texts, each with the condition that selects its row."""
    keys = list(table.primary_key)
    rows = conn.execute(sa.select(*keys, sa.type_coerce(column, sa.Text)).order_by(*keys)).all()
    return [([key == value for key, value in zip(keys, row, strict=False)], row[-1]) for row in rows]


def _derive_key(key: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    secret = HKDF(algorithm=SHA256(), length=32, salt=None, info=PURPOSE).derive(key.encode())
    return base64.urlsafe_b64encode(secret)
