"""The rules of producers: saved by users, evaluated as rows arrive; their events are stored, shown and forwarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from app.kit.clock import to_text
from app.kit.sql import Database, Event, publish
from app.results import store
from app.results.errors import EventPictureNotFound, RuleEventNotFound
from app.results.model.event import RuleCounts, RuleEvent
from app.results.model.frame_result import FrameRecord
from app.results.model.producer import Producer
from app.results.model.rule import RuleSet, check_rules
from app.results.model.rule_evaluation import Size, evaluate_origins
from app.results.service.event_media import EventMedia, media_key
from app.results.service.producers import ByKind, find_producer
from app.results.store import RuleEventFilter

PICTURE_WITHIN_S = 8.0
"""A picture that arrives within this time after an event is kept as its picture: a runner sends one every 5 s."""
MOST_LATE_S = 30.0
"""An event that arrived later than this after its frame gets no picture, because the current one shows something
else."""
PICTURES_AT_ONCE = 20
"""Maximum number of events that get the same picture."""
FORGOTTEN_AT_ONCE = 1000
MOST_EVENT_ID = (1 << 31) - 1


@dataclass(frozen=True)
class ProducerRules:
    """The rules of a producer, and their state."""

    rule_set: RuleSet = field(default_factory=RuleSet)
    problem: str = ""
    """Why none of them can hold now, whatever the origin: see EvaluationState."""


@dataclass(frozen=True)
class TakenRows:
    records: list[FrameRecord]
    """As they are stored, oldest first."""
    event_count: int


@dataclass(frozen=True)
class RuleEventPage:
    events: list[RuleEvent]
    cursor: int | None
    """event_id from which the next page continues; None: there is none."""
    counts: Mapping[str, RuleCounts]
    """Of the chosen events on all pages, by rule."""


@dataclass(eq=False)
class Rules:
    """Rules of producers; callers have checked that the user may see the producer.

    Args:
        media: pictures and clips of events.
        announce: tells open pages of a change, by the producer's kind: uid.
        on_change: called after the rules of a producer, by its uid, have changed.
        keep_days: how long events are kept.
        most_per_producer: events of a producer; the oldest are deleted.
    """

    database: Database
    kinds: ByKind
    media: EventMedia
    _: KW_ONLY
    announce: Mapping[str, Callable[[str], None]]
    keep_days: int
    most_per_producer: int
    on_change: Callable[[str], None] = lambda _: None

    def get(self, producer: Producer) -> ProducerRules:
        with self.database.read() as conn:
            rule_set = store.get_rules(conn, producer.uid) or RuleSet()
            return ProducerRules(rule_set, _find_problem(conn, producer.uid))

    def put(self, producer: Producer, rule_set: RuleSet) -> ProducerRules:
        """Applies to each row that arrives from now on. An unchanged rule keeps its cool-down.

        Raises:
            BadRule: They do not match. Nothing is changed.
            NotFound, Conflict: The producer is gone meanwhile, or has ended.
        """
        return self.change(producer, lambda _: rule_set)

    def change(self, producer: Producer, change: Callable[[RuleSet], RuleSet]) -> ProducerRules:
        """As put, made of what there is: nobody else changes it meanwhile."""
        uid = producer.uid
        with self.database.write() as conn:
            self.kinds[producer.kind].lock(conn, uid)
            before = store.get_rules(conn, uid) or RuleSet()
            rule_set = change(before)
            check_rules(rule_set)
            for origin, state in store.rule_states_of(conn, uid).items():
                following = state.following(before.of(*origin), rule_set.of(*origin))
                store.put_rule_state(conn, uid, origin, following)
            store.put_rules(conn, uid, rule_set)
            problem = _find_problem(conn, uid)
        self.announce[producer.kind](uid)
        self.on_change(uid)
        return ProducerRules(rule_set, problem)

    def take(
        self,
        conn: Connection,
        producer: Producer,
        records: Sequence[FrameRecord],
        *,
        size: Size | None = None,
        now: datetime,
    ) -> TakenRows:
        """Stores new rows, whose objects are followed, and evaluates them, in a transaction that has locked the
        producer.

        Args:
            records: oldest first; none: nothing is read.
            size: of the source, for rows without their own; None: unknown.
        """
        if not records:
            return TakenRows([], 0)
        rule_set = store.get_rules(conn, producer.uid) or RuleSet()
        events, stored, at = list[RuleEvent](), list[FrameRecord](), to_text(now)
        state_of = partial(store.rule_state_of, conn, producer.uid)
        evaluations = evaluate_origins(rule_set, state_of, records, size=size, by_pts=producer.by_pts)
        for origin, evaluation in evaluations.items():
            store.put_rule_state(conn, producer.uid, origin, evaluation.state)
            events += evaluation.events
            stored += evaluation.records
            store.add_crossings(conn, producer.uid, evaluation.crossings, at)
        store.add_rows(conn, producer.uid, stored, at)
        for event in sorted(events, key=lambda event: event.n_loop):
            _publish(conn, producer, store.add_rule_event(conn, producer.uid, event, at))
        return TakenRows(sorted(stored, key=lambda record: record.n_loop), len(events))

    def events(
        self,
        producer: Producer,
        chosen: RuleEventFilter,
        *,
        cursor: int | None = None,
        newest_first: bool = True,
        limit: int,
    ) -> RuleEventPage:
        """Returns a page of the events of a producer's rules.

        Args:
            cursor: from the page before: the number of an event; None: the first page.
        """
        with self.database.read() as conn:
            events = store.rule_events_of(
                conn, producer.uid, chosen, cursor=cursor, newest_first=newest_first, limit=limit + 1
            )
            counts = store.count_by_rule(conn, producer.uid, chosen)
        return RuleEventPage(events[:limit], events[limit - 1].event_id if len(events) > limit else None, counts)

    def event(self, producer: Producer, event_id: int) -> RuleEvent:
        with self.database.read() as conn:
            event = store.get_rule_event(conn, producer.uid, event_id) if event_id <= MOST_EVENT_ID else None
        if event is None:
            raise RuleEventNotFound(f"{producer.title} has no event {event_id}.", hint="Events are kept for a time.")
        return event

    def picture(self, producer: Producer, event_id: int) -> bytes:
        """Returns a JPEG."""
        event = self.event(producer, event_id)
        picture = self.media.get(media_key(producer.kind, producer.uid, event_id)) if event.picture_at else None
        if picture is None:
            raise EventPictureNotFound(
                f"There is no picture of the event {event_id}.", hint="One is kept if it comes within some seconds."
            )
        return picture

    def keep_picture(
        self, kind: str, uid: str, picture: bytes, now: datetime, *, node: str = "", source: str = ""
    ) -> None:
        """Keeps a picture that a node has just sent as that of the events that have just happened.

        Args:
            kind: of the producer.
            picture: a JPEG.
            node: of the rows of this picture's origin; with `source`.
        """
        stored_since, since = (to_text(now - timedelta(seconds=s)) for s in (PICTURE_WITHIN_S, MOST_LATE_S))
        with self.database.read() as conn:
            events = store.events_without_picture(
                conn, uid, node=node, source=source, stored_since=stored_since, since=since, limit=PICTURES_AT_ONCE
            )
        for event in events:
            self.media.put(media_key(kind, uid, event.event_id), picture)
        if events:
            with self.database.write() as conn:
                store.note_picture(conn, [event.event_id for event in events], to_text(now))
            self.announce[kind](uid)

    def forget_old(self, now: datetime) -> int:
        """Deletes events that were stored longer ago than rows are kept, or too many for a producer, with their
        pictures and clips. Returns the number."""
        at, count = to_text(now - timedelta(days=self.keep_days)), 0
        while True:
            with self.database.write() as conn:
                gone = store.forget_rule_events_before(conn, at, limit=FORGOTTEN_AT_ONCE)
            count += self._remove_media(gone)
            if len(gone) < FORGOTTEN_AT_ONCE:
                break
        with self.database.read() as conn:
            uids = [uid for kind in self.kinds.values() for uid in kind.uids(conn)]
        for uid in uids:
            with self.database.write() as conn:
                gone = store.trim_rule_events(conn, uid, self.most_per_producer)
            count += self._remove_media(gone)
        return count

    def _remove_media(self, gone: Sequence[tuple[str, int]]) -> int:
        with self.database.read() as conn:
            producers = {uid: find_producer(conn, self.kinds, uid) for uid in {uid for uid, _ in gone}}
        for uid, event_id in gone:
            producer = producers[uid]
            if producer is not None:  # what was stored of one that is gone went with it
                self.media.forget(producer.kind, uid, event_id)
        return len(gone)


def _find_problem(conn: Connection, uid: str) -> str:
    problems = [state.problem for state in store.rule_states_of(conn, uid).values()]
    return problems[0] if problems and all(problems) else ""


def _publish(conn: Connection, producer: Producer, event: RuleEvent) -> None:
    kind = f"{producer.subject.partition(':')[0]}.event"
    origin = {name: value for name, value in (("node", event.node), ("source", event.source)) if value}
    data = {
        "uid": producer.uid,
        **producer.facts,
        **origin,
        "rule": event.rule,
        "zone": event.zone,
        "n_loop": event.n_loop,
        "objects": list(event.objects),
        "reason": event.text,
        "rule_event_id": event.event_id,
    }
    event_id = f"{producer.subject}:{kind}:{event.event_id}"
    page = f"{producer.page}/rules"
    publish(conn, Event(event_id, kind, producer.owner, producer.subject, producer.title, event.at, page, data))
