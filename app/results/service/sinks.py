"""Additional destinations for the rows and events of producers: configured by users, delivered in order, at least once.

A sink is a cursor over the database, unless nodes deliver to it. Accepted entries advance the cursor;
others are retried with growing delays, as long as they are stored. Only an entry that is too large for the receiver
even alone is left out, counted and shown. The producer is not involved.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.kit.access import EnabledOf
from app.kit.clock import now, to_text
from app.kit.errors import ModelmillError
from app.kit.network.addresses import Network
from app.kit.network.checked_post import new_signing_secret
from app.kit.sql import Database
from app.kit.text.json_values import JsonObject
from app.results import store
from app.results.errors import BadSink, SinkNotFound, TooManySinks, TooManySinkTests
from app.results.model.frame_result import ResultFilter
from app.results.model.producer import Producer
from app.results.model.sink import (
    MOST_SINKS,
    PAUSE,
    Delivery,
    SentBy,
    Sink,
    SinkContent,
    SinkKind,
    TooLarge,
    event_delivery,
    row_delivery,
    test_delivery,
)
from app.results.senders import SinkSender, try_to_send
from app.results.service.producers import ByKind, find_producer
from app.results.service.sink_addresses import ANY_NETWORK, check_address
from app.results.store import RuleEventFilter

LEASE_S = 60.0
"""Longer than a try takes."""
MOST_AHEAD_S = 600.0
"""A sink that is due later than this is due now: no pause is so long, so the clock was set back."""
LOOK_S = 0.5
"""Between two looks at what has become due while tries are under way."""
AT_ONCE = 32
"""Sinks that are tried at the same time."""
TESTS_AT_ONCE = 4
"""In a process."""
logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Sinks:
    """Whoever asks has looked the producer up for the user.

    Args:
        kinds: The producers of each kind.
        senders: How each kind is delivered to.
        networks: Private networks that may be sent to.
        order_nodes: Has nodes deliver for the producer with this uid, as far as it has such sinks.
        test_at_nodes: Has nodes send a test with this id. Returns why it was not accepted; empty: it was.
        check_folder: Refuses a path that is not a writable folder of a home.
        enabled_of: Those of these users who are enabled; what the others have seen waits.
    """

    database: Database
    kinds: ByKind
    senders: Mapping[SinkKind, SinkSender]
    networks: Sequence[Network]
    _: KW_ONLY
    order_nodes: Callable[[str], None]
    test_at_nodes: Callable[[Sink, str], str]
    check_folder: Callable[[str], None]
    enabled_of: EnabledOf

    def __post_init__(self) -> None:
        self._room_for_tests = threading.BoundedSemaphore(TESTS_AT_ONCE)

    def of(self, producer: Producer) -> list[Sink]:
        """Oldest first."""
        with self.database.read() as conn:
            return [replace(sink, queued=store.backlog_of(conn, sink)) for sink in store.sinks_of(conn, producer.uid)]

    def add(
        self,
        producer: Producer,
        kind: SinkKind,
        content: SinkContent,
        address: str,
        *,
        sent_by: SentBy = SentBy.SERVER,
        now: datetime,
    ) -> Sink:
        """Send a producer's rows or events somewhere, from what comes next on.

        Args:
            content: rows, or events of its rules.
            address: a URL, or a folder for a file.
            sent_by: who delivers. Which private networks a node may send to is for the node to say, when it does.

        Raises:
            BadUrl, BadSink, AddressRefused: Nothing can be sent to this address.
            TooManySinks: The producer has as many as it may.
            NotFound, Conflict: The producer is gone meanwhile, or makes nothing any more.
        """
        is_at_nodes = sent_by is SentBy.NODE
        if is_at_nodes and kind is SinkKind.FILE:
            raise BadSink(
                "A node writes no files into a data home.",
                hint="Let the web server deliver, or give another address.",
            )
        networks = ANY_NETWORK if is_at_nodes else self.networks
        address = check_address(kind, address, networks, self.check_folder)
        secret = new_signing_secret()
        at = to_text(now)
        uid = producer.uid
        with self.database.write() as conn:
            self.kinds[producer.kind].lock(conn, uid)
            if len(store.sinks_of(conn, uid)) >= MOST_SINKS:
                raise TooManySinks(f"There are at most {MOST_SINKS} sinks.", hint="Remove one.")
            newest = store.last_row if content is SinkContent.ROWS else store.last_event_id
            sink = Sink(
                uuid.uuid4().hex,
                uid,
                kind,
                content,
                address,
                secret if kind is SinkKind.HTTP else "",
                at,
                newest(conn, uid),
                due_at=at,
                sent_by=sent_by,
            )
            store.add_sink(conn, sink)
        if is_at_nodes:
            self.order_nodes(uid)
        return sink

    def remove(self, producer: Producer, sink_id: str) -> None:
        """Removes a sink; what waits for it is not delivered."""
        with self.database.write() as conn:
            if not store.remove_sink(conn, producer.uid, sink_id):
                raise _make_not_found(producer, sink_id)
        self.order_nodes(producer.uid)

    def test(self, producer: Producer, sink_id: str, *, now: datetime) -> str:
        """Sends it a message that says nothing but that it arrives, now and once; what waits for it goes on waiting.

        Args:
            sink_id: of the sink.
            now: the time of the message.

        Returns:
            Why it was not taken; empty: it was.

        Raises:
            SinkNotFound: The producer has no such sink.
            TooManySinkTests: So many others wait for an answer just now.
        """
        with self.database.read() as conn:
            sink = next((one for one in store.sinks_of(conn, producer.uid) if one.sink_id == sink_id), None)
        if sink is None:
            raise _make_not_found(producer, sink_id)
        if not self._room_for_tests.acquire(blocking=False):
            raise TooManySinkTests(f"{TESTS_AT_ONCE} sinks are being tested just now.", hint="Try again in a moment.")
        id_ = uuid.uuid4().hex
        try:
            if sink.sent_by is SentBy.NODE:
                return self.test_at_nodes(sink, id_)
            return try_to_send(self.senders, sink, [test_delivery(producer, id_, to_text(now))])
        except TooLarge as error:
            return str(error)
        finally:
            self._room_for_tests.release()

    def deliver_due(self) -> int:
        """Delivers to all that are due, many at once, and what becomes due meanwhile: no receiver delays others. After
        a try a sink comes behind those that are due already. Returns the number of tries.

        Raises:
            DatabaseUnavailable: What is due could not be read.
        """
        count, under_way = 0, dict[Future[None], str]()
        with ThreadPoolExecutor(AT_ONCE, "sinks") as pool:
            while True:
                leased = self._lease(AT_ONCE - len(under_way), without=under_way.values())
                under_way |= {pool.submit(self._try, sink): sink.sink_id for sink in leased}
                count += len(leased)
                if not under_way:
                    return count
                for ended in wait(under_way, LOOK_S, FIRST_COMPLETED).done:
                    del under_way[ended]
                    ended.result()

    def _lease(self, limit: int, *, without: Collection[str]) -> list[Sink]:
        """Those that have been due longest. without: those that this process tries already."""
        if not limit:
            return []
        moment = now()
        until, latest = (to_text(moment + timedelta(seconds=s)) for s in (LEASE_S, MOST_AHEAD_S))
        with self.database.write() as conn:
            return store.lease_sinks(conn, to_text(moment), until=until, latest=latest, limit=limit, without=without)

    def _try(self, sink: Sink) -> None:
        try:
            owner, deliveries = self._waiting(sink)
            if not deliveries:  # its rows have gone before they could be delivered
                changes: JsonObject = {"due_at": to_text(now() + timedelta(seconds=PAUSE.longest_s))}
            else:
                changes = {"due_at": to_text(now()), **self._send(sink, owner, deliveries)}
            self._record_change(sink, changes)
        except ModelmillError as error:  # its lease ends, and it is tried again
            logger.warning("How a sink of %s does is not noted: %s", sink.uid, error.message)

    def _send(self, sink: Sink, owner: str, deliveries: Sequence[Delivery]) -> JsonObject:
        """Returns what changes with the try."""
        try:
            is_enabled = bool(self.enabled_of([owner]))
            problem = try_to_send(self.senders, sink, deliveries) if is_enabled else "its user is disabled"
        except TooLarge as error:
            return sink.changes_of_too_large(deliveries, str(error))
        return sink.changes_after(deliveries, problem, now())

    def _record_change(self, sink: Sink, changes: Mapping[str, Any]) -> None:
        with self.database.write() as conn:
            store.change_sink(conn, sink.sink_id, **changes)

    def _waiting(self, sink: Sink) -> tuple[str, list[Delivery]]:
        """Whose it is, and what is to be delivered."""
        with self.database.read() as conn:
            producer = find_producer(conn, self.kinds, sink.uid)
            return ("", []) if producer is None else (producer.owner, _load_deliveries(conn, producer, sink))


def _make_not_found(producer: Producer, sink_id: str) -> SinkNotFound:
    return SinkNotFound(f"{producer.title} has no sink {sink_id[:64]}.", hint="GET …/sinks lists them.")


def _load_deliveries(conn: Connection, producer: Producer, sink: Sink) -> list[Delivery]:
    if sink.content is SinkContent.ROWS:
        rows = store.rows_of(conn, producer.uid, ResultFilter(), after=sink.cursor, limit=sink.parcels)
        return [row_delivery(producer, row) for row in rows]
    events = store.rule_events_of(
        conn, producer.uid, RuleEventFilter(), cursor=sink.cursor, newest_first=False, limit=sink.parcels
    )
    return [event_delivery(producer, event) for event in events]
