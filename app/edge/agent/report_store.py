"""The reports that the web has not accepted yet, in the agent's database, and how many were dropped."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from app.edge.agent.database import AgentDatabase
from app.kit.clock import now, to_text

OUTBOX_MOST = 1000
OUTBOX_BYTES = 256 << 20
LOST, REFUSED = "lost_reports", "refused_reports"
"""Names of settings: numbers of dropped reports."""
SINCE = "_at"
"""After such a name: when the last one was dropped."""
REFUSAL = "refusal"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OutboxEntry:
    """A POST that the web has not accepted yet."""

    number: int
    path: str
    content_type: str
    body: bytes
    is_replaceable: bool
    """A newer one replaces it, such as a picture; otherwise it is kept until the web has accepted it."""


@dataclass(frozen=True)
class DroppedReports:
    """How many reports were dropped for one reason."""

    count: int
    last_at: str
    """When the last of them was; empty: there was none."""


class ReportStore:
    """The stored reports, oldest first."""

    def __init__(self, database: AgentDatabase) -> None:
        self._database = database

    def push(self, path: str, body: bytes, content_type: str, replaces: str) -> None:
        """Append a report. The oldest are dropped, and counted, if there are too many, or too many bytes.

        Args:
            path: of the web.
            body: of the POST.
            content_type: of the body.
            replaces: unsent reports with the same key are removed; empty: none.

        Raises:
            sqlite3.Error: It could not be stored, as on a full disk.
        """
        self._database.write(lambda: self._push(path, body, content_type, replaces))

    def _push(self, path: str, body: bytes, content_type: str, replaces: str) -> None:
        with self._database.connection as connection:
            if replaces:
                connection.execute("DELETE FROM outbox WHERE replaces = ?", (replaces,))
            connection.execute(
                "INSERT INTO outbox (path, content_type, replaces, bytes, body) VALUES (?, ?, ?, ?, ?)",
                (path, content_type, replaces, len(body), body),
            )
            dropped = connection.execute(
                "DELETE FROM outbox WHERE id IN (SELECT id FROM (SELECT id, ROW_NUMBER() OVER newest AS place,"
                " SUM(bytes) OVER newest AS total FROM outbox WINDOW newest AS (ORDER BY id DESC))"
                " WHERE place > ? OR (total > ? AND place > 1))",
                (OUTBOX_MOST, OUTBOX_BYTES),
            ).rowcount
            if dropped:
                self._count(LOST, dropped)
        if dropped:
            logger.warning("The web has been away for too long: %d of the oldest reports to it are lost.", dropped)

    def oldest(self, *, after: int = 0) -> OutboxEntry | None:
        """Returns the oldest of those after this number; None: there is none."""
        query = "SELECT id, path, content_type, body, replaces != '' FROM outbox WHERE id > ? ORDER BY id LIMIT 1"
        row = self._database.connection.execute(query, (after,)).fetchone()
        if row is None:
            return None
        number, path, content_type, body, is_replaceable = row
        return OutboxEntry(number, path, content_type, body, bool(is_replaceable))

    def remove_sent(self, entry: OutboxEntry) -> None:
        """Succeeds on a full disk, too: the reports behind it are sent."""

        def remove() -> None:
            with self._database.connection:
                self._delete(entry)

        self._database.write(remove, makes_room=True)

    def remove_refused(self, entry: OutboxEntry, refusal: str) -> None:
        """Like `remove_sent`, of a report that the web refuses; it is counted.

        Args:
            refusal: the web's reason.
        """

        def remove() -> None:
            with self._database.connection:
                self._delete(entry)
                self._count(REFUSED, 1)
                self._database.put_setting(REFUSAL, refusal)

        self._database.write(remove, makes_room=True)

    @property
    def lost(self) -> DroppedReports:
        """Accepted reports that were dropped because too many, or too many bytes, were waiting."""
        return self._read_count(LOST)

    @property
    def refused(self) -> DroppedReports:
        """Reports that the web has refused, and that were dropped."""
        return self._read_count(REFUSED)

    @property
    def refusal(self) -> str:
        """Why the web refused the last of them."""
        return self._database.setting(REFUSAL)

    def _delete(self, entry: OutboxEntry) -> None:
        self._database.connection.execute("DELETE FROM outbox WHERE id = ?", (entry.number,))

    def _count(self, name: str, dropped: int) -> None:
        self._database.put_setting(name, str(self._read_count(name).count + dropped))
        self._database.put_setting(name + SINCE, to_text(now()))

    def _read_count(self, name: str) -> DroppedReports:
        return DroppedReports(int(self._database.setting(name) or 0), self._database.setting(name + SINCE))
