"""The results of a job: all rows that are kept, looked through by time, class and score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.kit.clock import to_text
from app.kit.sql import Database
from app.video import store
from app.video.model.frame_result import FrameRecord, ResultFilter
from app.video.service.jobs import Jobs

AT_ONCE = 1000
MOST_SCANNED = 50_000
"""Rows that are looked at for one page, where a score is asked for."""


@dataclass(frozen=True)
class ResultPage:
    records: list[FrameRecord]
    cursor: int | None
    """Number of the frame from which the next page goes on; None: there is none."""


class Results:
    """Every verb takes the user: another user's job is as if there were none.

    Args:
        keep_days: how long rows are kept.
        most_per_job: rows of a job; the oldest go.
    """

    def __init__(self, database: Database, jobs: Jobs, *, keep_days: int, most_per_job: int) -> None:
        self.database = database
        self.jobs = jobs
        self.keep_days = keep_days
        self.most_per_job = most_per_job

    def page(
        self,
        user: str,
        uid: str,
        chosen: ResultFilter,
        *,
        cursor: int | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> ResultPage:
        """A page of a job's results.

        Args:
            chosen: which rows; score and size are looked at row by row.
            cursor: from the page before: the number of a frame; None: the first page.

        Returns:
            At most `limit` rows, or fewer, with a cursor to go on from, when MOST_SCANNED rows were read.

        Raises:
            VideoJobNotFound: It is not this user's, either.
        """
        self.jobs.get(user, uid)
        matching: list[FrameRecord] = []
        scanned = 0
        while scanned < MOST_SCANNED:
            rows = self._rows(uid, chosen, cursor, newest_first=newest_first)
            for row in rows:
                scanned, cursor = scanned + 1, row.n_loop
                if chosen.matches(row):
                    matching.append(row)
                if len(matching) == limit:
                    return ResultPage(matching, cursor)
            if len(rows) < AT_ONCE:
                return ResultPage(matching, None)
        return ResultPage(matching, cursor)

    def all(self, user: str, uid: str, chosen: ResultFilter) -> Iterator[FrameRecord]:
        """Oldest first, read bit by bit. Raises VideoJobNotFound at once."""
        self.jobs.get(user, uid)
        return self._all(uid, chosen)

    def forget_old(self, now: datetime) -> int:
        """What is older than rows are kept, and what a job has too many of. Returns how many rows went."""
        with self.database.write() as conn:
            count = store.forget_results_before(conn, to_text(now - timedelta(days=self.keep_days)))
        with self.database.read() as conn:
            uids = store.open_uids(conn)
        for uid in uids:
            with self.database.write() as conn:
                count += store.trim_results(conn, uid, self.most_per_job)
        return count

    def _all(self, uid: str, chosen: ResultFilter) -> Iterator[FrameRecord]:
        cursor: int | None = None
        while rows := self._rows(uid, chosen, cursor, newest_first=False):
            yield from filter(chosen.matches, rows)
            cursor = rows[-1].n_loop

    def _rows(self, uid: str, chosen: ResultFilter, cursor: int | None, *, newest_first: bool) -> list[FrameRecord]:
        place = {"before": cursor} if newest_first else {"after": cursor}
        with self.database.read() as conn:
            return store.results_of(conn, uid, chosen, **place, newest_first=newest_first, limit=AT_ONCE)
