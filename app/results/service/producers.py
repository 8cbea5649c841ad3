"""Finds producers, whichever capability they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy import Connection

from app.results.model.producer import Producer


class Producers(Protocol):
    """Those of one kind."""

    def find(self, conn: Connection, uid: str) -> Producer | None:
        """None: there is none of this kind."""

    def lock(self, conn: Connection, uid: str) -> Producer:
        """One that still makes something; until the transaction ends nobody else changes it. Raises NotFound,
        Conflict."""

    def uids(self, conn: Connection) -> list[str]:
        """Of those that still make something."""


ByKind = Mapping[str, Producers]


def find_producer(conn: Connection, kinds: ByKind, uid: str) -> Producer | None:
    """The producer of a uid, of whichever kind; None: it is gone."""
    return next((producer for kind in kinds.values() if (producer := kind.find(conn, uid)) is not None), None)
