"""The rules of jobs: saved by users, evaluated as rows arrive; their events are stored, shown and forwarded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from app.kit.clock import to_text
from app.kit.sql import Database, publish
from app.results import store as result_store
from app.results.model.event import RuleEvent
from app.results.model.frame_result import FrameRecord
from app.results.store import RuleEventFilter
from app.video import store
from app.video.errors import NoPicture, RuleEventNotFound
from app.video.model.job import VideoJob
from app.video.model.rule import RuleSet, check_rules
from app.video.model.rule_evaluation import EvaluationState, evaluate, size_in
from app.video.service.jobs import Jobs
from app.video.service.snapshots import Snapshots
from app.video.store import StoredJob

KIND = "video.event"
"""Kind of the notifications."""
PICTURE_WITHIN_S = 8.0
"""A picture that arrives within this time after an event is kept as its picture: a node sends one every 5 s."""
MOST_LATE_S = 30.0
"""An event that arrived later than this after its frame gets no picture, because the current one shows something
else."""
PICTURES_AT_ONCE = 20
"""Maximum number of events that get the same picture."""
FORGOTTEN_AT_ONCE = 1000
MOST_EVENT_ID = (1 << 31) - 1


@dataclass(frozen=True)
class JobRules:
    """The rules of a job, and their state."""

    rule_set: RuleSet = field(default_factory=RuleSet)
    problem: str = ""
    """Why none of them can hold now: see EvaluationState."""


@dataclass(frozen=True)
class RuleEventPage:
    events: list[RuleEvent]
    cursor: int | None
    """event_id from which the next page continues; None: there is none."""


class Rules:
    """Every operation takes the user: another user's job is treated as missing.

    Args:
        snapshots: the newest picture of each job, for events.
        keep_days: how long events are kept.
        most_per_job: events of a job; the oldest go.
    """

    def __init__(
        self, database: Database, jobs: Jobs, snapshots: Snapshots, *, keep_days: int, most_per_job: int
    ) -> None:
        self.database = database
        self.jobs = jobs
        self.snapshots = snapshots
        self.keep_days = keep_days
        self.most_per_job = most_per_job

    def get(self, user: str, uid: str) -> JobRules:
        """Raises VideoJobNotFound."""
        self.jobs.get(user, uid)
        with self.database.read() as conn:
            stored = store.get_rules(conn, uid)
        return JobRules(stored[0], stored[1].problem) if stored else JobRules()

    def put(self, user: str, uid: str, rule_set: RuleSet) -> JobRules:
        """Applies to each row that arrives from now on. An unchanged rule keeps its cool-down.

        Raises:
            BadRule: They do not match. Nothing is changed.
            VideoJobNotFound, JobEnded
        """
        return self.change(user, uid, lambda _: rule_set)

    def change(self, user: str, uid: str, change: Callable[[RuleSet], RuleSet]) -> JobRules:
        """As put, made of what there is: nobody else changes it meanwhile."""
        with self.jobs.locked(user, uid) as (conn, _):
            before, state = store.get_rules(conn, uid) or (RuleSet(), EvaluationState())
            rule_set = change(before)
            check_rules(rule_set)
            state = state.following(before, rule_set)
            store.put_rules(conn, uid, rule_set, state)
        self.jobs.announce(uid)
        return JobRules(rule_set, state.problem)

    def judge(self, conn: Connection, stored: StoredJob, records: Sequence[FrameRecord], now: datetime) -> None:
        """Evaluates new rows, in the transaction that stores them.

        Args:
            records: oldest first; none: nothing is read.
        """
        job = stored.job
        kept = store.get_rules(conn, job.uid) if records else None
        if kept is None or not kept[0].rules:
            return
        rule_set, state = kept
        size = size_in(stored.generator_output)
        state, events = evaluate(rule_set, state, records, size=size, by_pts=not job.realtime)
        store.put_rule_state(conn, job.uid, state)
        for event in events:
            _publish(conn, job, result_store.add_rule_event(conn, job.uid, event, to_text(now)))

    def events(
        self,
        user: str,
        uid: str,
        chosen: RuleEventFilter,
        *,
        cursor: int | None = None,
        newest_first: bool = True,
        limit: int,
    ) -> RuleEventPage:
        """Returns a page of the events of a job's rules.

        Args:
            cursor: from the page before: the number of an event; None: the first page.

        Raises:
            VideoJobNotFound: It is not this user's, either.
        """
        self.jobs.get(user, uid)
        with self.database.read() as conn:
            events = result_store.rule_events_of(
                conn, uid, chosen, cursor=cursor, newest_first=newest_first, limit=limit + 1
            )
        return RuleEventPage(events[:limit], events[limit - 1].event_id if len(events) > limit else None)

    def picture(self, user: str, uid: str, event_id: int) -> bytes:
        """A JPEG. Raises VideoJobNotFound, RuleEventNotFound, NoPicture."""
        self.jobs.get(user, uid)
        with self.database.read() as conn:
            event = result_store.get_rule_event(conn, uid, event_id) if event_id <= MOST_EVENT_ID else None
        if event is None:
            raise RuleEventNotFound(f"The job {uid} has no event {event_id}.", hint="Events are kept for a time.")
        picture = self.snapshots.get_of_event(uid, event_id) if event.picture_at else None
        if picture is None:
            raise NoPicture(
                f"There is no picture of the event {event_id}.", hint="One is kept if it comes within some seconds."
            )
        return picture

    def keep_picture(self, uid: str, picture: bytes, now: datetime) -> None:
        """Keeps a node's snapshot as the picture of the events that have just happened."""
        stored_since, since = (to_text(now - timedelta(seconds=s)) for s in (PICTURE_WITHIN_S, MOST_LATE_S))
        with self.database.read() as conn:
            events = result_store.events_without_picture(
                conn, uid, stored_since=stored_since, since=since, limit=PICTURES_AT_ONCE
            )
        for event in events:
            self.snapshots.put_of_event(uid, event.event_id, picture)
        if events:
            with self.database.write() as conn:
                result_store.note_picture(conn, [event.event_id for event in events], to_text(now))
            self.jobs.announce(uid)

    def forget_old(self, now: datetime) -> int:
        """Deletes events that are older than rows are kept, or too many for a job, with their pictures. Returns the
        number."""
        at, count = to_text(now - timedelta(days=self.keep_days)), 0
        while True:
            with self.database.write() as conn:
                gone = result_store.forget_rule_events_before(conn, at, limit=FORGOTTEN_AT_ONCE)
            count += self._without_pictures(gone)
            if len(gone) < FORGOTTEN_AT_ONCE:
                break
        with self.database.read() as conn:
            uids = store.open_uids(conn)
        for uid in uids:
            with self.database.write() as conn:
                gone = result_store.trim_rule_events(conn, uid, self.most_per_job)
            count += self._without_pictures(gone)
        return count

    def _without_pictures(self, gone: Sequence[tuple[str, int]]) -> int:
        for uid, event_id in gone:
            self.snapshots.forget_of_event(uid, event_id)
        return len(gone)


def _publish(conn: Connection, job: VideoJob, event: RuleEvent) -> None:
    facts = {
        "rule": event.rule,
        "zone": event.zone,
        "n_loop": event.n_loop,
        "objects": list(event.objects),
        "reason": event.text,
        "rule_event_id": event.event_id,
    }
    notification = store.notification_of(job, KIND, event.at, facts, tail=str(event.event_id))
    publish(conn, replace(notification, path=f"/ui/video/{job.uid}/rules"))
