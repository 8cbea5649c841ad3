"""The stored rows of a producer, searched by time, class and score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.kit.clock import to_text
from app.kit.sql import Database
from app.results import store
from app.results.model.frame_result import FrameRecord, ResultFilter
from app.results.model.producer import Producer
from app.results.service.producers import ByKind

AT_ONCE = 1000
MOST_SCANNED = 50_000
"""Rows that are read for one page when a score is given."""


@dataclass(frozen=True)
class ResultPage:
    records: list[FrameRecord]
    cursor: int | None
    """Number of the frame at which the next page starts; None if there is none."""


class Results:
    """Rows of producers; callers have checked that the user may see the producer.

    Args:
        keep_days: how long rows are kept.
        most_per_producer: rows of an active producer; the oldest are deleted.
    """

    def __init__(self, database: Database, kinds: ByKind, *, keep_days: int, most_per_producer: int) -> None:
        self.database = database
        self.kinds = kinds
        self.keep_days = keep_days
        self.most_per_producer = most_per_producer

    def page(
        self,
        producer: Producer,
        chosen: ResultFilter,
        *,
        cursor: int | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> ResultPage:
        """Returns a page of rows.

        Args:
            chosen: which rows; score and size are checked row by row.
            cursor: the number of a frame, from the previous page; None for the first page.

        Returns:
            At most `limit` rows; fewer, with a cursor, after MOST_SCANNED rows were read.
        """
        matching: list[FrameRecord] = []
        scanned = 0
        while scanned < MOST_SCANNED:
            rows = self._load_rows(producer.uid, chosen, cursor, newest_first=newest_first)
            for row in rows:
                scanned, cursor = scanned + 1, row.n_loop
                if chosen.matches(row):
                    matching.append(row)
                if len(matching) == limit:
                    return ResultPage(matching, cursor)
            if len(rows) < AT_ONCE:
                return ResultPage(matching, None)
        return ResultPage(matching, cursor)

    def all(self, producer: Producer, chosen: ResultFilter) -> Iterator[FrameRecord]:
        """Yields all matching rows, the oldest first, read in parts."""
        cursor: int | None = None
        while rows := self._load_rows(producer.uid, chosen, cursor, newest_first=False):
            yield from filter(chosen.matches, rows)
            cursor = rows[-1].n_loop

    def forget_old(self, now: datetime) -> int:
        """Deletes rows that are too old, or too many for a producer.

        Returns:
            How many were deleted.
        """
        with self.database.write() as conn:
            count = store.forget_rows_before(conn, to_text(now - timedelta(days=self.keep_days)))
        with self.database.read() as conn:
            uids = [uid for kind in self.kinds.values() for uid in kind.uids(conn)]
        for uid in uids:
            with self.database.write() as conn:
                count += store.trim_rows(conn, uid, self.most_per_producer)
        return count

    def _load_rows(
        self, uid: str, chosen: ResultFilter, cursor: int | None, *, newest_first: bool
    ) -> list[FrameRecord]:
        place = {"before": cursor} if newest_first else {"after": cursor}
        with self.database.read() as conn:
            return store.rows_of(conn, uid, chosen, **place, newest_first=newest_first, limit=AT_ONCE)
