"""The audit log: who did what to which account, and when. Lines are added and never changed."""

from __future__ import annotations

from sqlalchemy import Connection

from app.accounts import store
from app.accounts.model import AuditEntry
from app.kit.clock import now, to_text
from app.kit.sql import Database
from app.kit.text.json_values import JsonObject


def note(conn: Connection, by: str, action: str, subject: str, detail: JsonObject | None = None) -> None:
    """Adds an entry in the transaction of the change, so that both happen or neither.

    Args:
        by: the acting user, or the operator at the command line.
        action: a word with a dot, as "token.revoked".
        subject: a user's name, or an id.
        detail: JSON in the format of the action; None: no further data.
    """
    store.note(conn, AuditEntry(to_text(now()), by, action, subject, detail or {}))


class AuditLog:
    def __init__(self, database: Database) -> None:
        self.database = database

    def entries(
        self, *, limit: int = 100, before: int | None = None, subject: str | None = None, actor: str | None = None
    ) -> list[AuditEntry]:
        """Newest first.

        Args:
            before: the number of an entry.
        """
        with self.database.read() as conn:
            return store.entries(conn, limit=limit, before=before, subject=subject, actor=actor)

    def note(self, by: str, action: str, subject: str, detail: JsonObject | None = None) -> None:
        """Adds an entry for other capabilities, in its own transaction. Arguments as of `note`."""
        with self.database.write() as conn:
            note(conn, by, action, subject, detail)
