"""Finds producers of all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy import Connection

from app.results.model.producer import Producer


class Producers(Protocol):
    """The producers of one kind."""

    def find(self, conn: Connection, uid: str) -> Producer | None:
        """Returns a producer; None if this kind has none with this uid."""

    def lock(self, conn: Connection, uid: str) -> Producer:
        """Returns an active producer, and locks it until the transaction ends.

        Raises:
            NotFound: There is none.
            Conflict: It has ended.
        """

    def uids(self, conn: Connection) -> list[str]:
        """Returns the uids of the active producers."""


ByKind = Mapping[str, Producers]


def find_producer(conn: Connection, kinds: ByKind, uid: str) -> Producer | None:
    """Returns the producer with this uid, of any kind; None if it is gone."""
    return next((producer for kind in kinds.values() if (producer := kind.find(conn, uid)) is not None), None)
