"""The destinations of a producer's rows or events besides the database, and their envelope. Pure.

What the web server delivers is in its database already, under increasing numbers: such a sink is a cursor over it. So
an unavailable sink costs nothing except its backlog, which is as long as rows are kept. What a node delivers waits in a
queue on the node's disk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from app.kit.backoff import GrowingPause
from app.kit.clock import to_text
from app.kit.text.json_form import JsonDocument
from app.kit.text.json_values import JsonObject
from app.results.model.event import RuleEvent
from app.results.model.frame_result import FrameRecord
from app.results.model.producer import Producer
from app.results.model.rule import RuleSet

PAUSE = GrowingPause(2.0, 300.0)
"""Pauses between two tries, in seconds."""
PASSWORD = re.compile(r"(?<=://)([^:/?#]*):[^/?#]*@")
PARCELS = 200
"""Rows or events in a try, at most: each failed attempt halves the number for the next, because a receiver may not take
so many at once."""
STUCK_TRIES = 9
"""Failed tries in a row after which a sink counts as stuck: eight and a half minutes."""
NODE_SINKS, PART = "nodesinks", "all"
"""Kind and part of the order of a node that delivers."""
MOST_SINKS = 5
"""For one producer."""


FURTHER_KEYS = (
    "pts",
    "size",
    "tracked",
    "sample",
    "answered_by",
    "is_hard",
    "node",
    "source",
    "model_name",
    "model_version",
    "plan",
)
"""Further keys of a row that are sent if present, in addition to counts and objects."""


class SinkKind(StrEnum):
    HTTP = "http"
    """CloudEvents in batches of JSON, signed as Standard Webhooks are."""
    MQTT = "mqtt"
    """MQTT 5, a message for each row or event."""
    HOME_ASSISTANT = "home_assistant"
    """MQTT 5: sensors that Home Assistant discovers, and the last state, retained."""
    REDIS = "redis"
    """A stream entry for each row or event."""
    KAFKA = "kafka"
    """A message of a topic for each row or event, acknowledged by all replicas."""
    FILE = "file"
    """JSON Lines in the data home of the producer's owner."""


_MQTT = {"mqtt": 1883, "mqtts": 8883}
SCHEMES: Mapping[SinkKind, Mapping[str, int]] = {
    SinkKind.HTTP: {"http": 80, "https": 443},
    SinkKind.MQTT: _MQTT,
    SinkKind.HOME_ASSISTANT: _MQTT,
    SinkKind.REDIS: {"redis": 6379},
    SinkKind.KAFKA: {"kafka": 9092, "kafkas": 9093},
    SinkKind.FILE: {},
}
"""Schemes of the addresses of each kind, with their default ports; a folder has none."""
PORTS = {scheme: port for ports in SCHEMES.values() for scheme, port in ports.items()}
"""Default ports by scheme."""


MOST_COUNTED = 10_000
"""A longer backlog is said to be as long as this."""


def format_backlog(backlog: int) -> str:
    """Returns it for readers, with a plus where more may wait than were counted."""
    return f"{backlog:,}+" if backlog >= MOST_COUNTED else f"{backlog:,}"


def hide_password(address: str) -> str:
    return PASSWORD.sub(r"\1:***@", address)


def kind_of(address: str) -> SinkKind:
    """Returns the kind that an address shows by its scheme; the first one where several kinds share it."""
    scheme, _, rest = address.partition("://")
    if not rest:
        return SinkKind.FILE
    return next((kind for kind, ports in SCHEMES.items() if scheme in ports), SinkKind.HTTP)


class SinkContent(StrEnum):
    ROWS = "rows"
    EVENTS = "events"
    """Events of its rules."""


class SentBy(StrEnum):
    SERVER = "server"
    """The web server, when the rows have reached it."""
    NODE = "node"
    """Each node its own rows, also while the web server is away."""


@dataclass(frozen=True, kw_only=True)
class SinkProgress(JsonDocument):
    """How far the delivery to a sink is."""

    delivered: int = 0
    """How many were delivered."""
    delivered_at: str | None = None
    """When the last delivery was."""
    tries: int = 0
    """Failed tries since then."""
    due_at: str = ""
    """Not tried before this time."""
    problem: str = ""
    """Why the last try failed; empty if it did not."""
    skipped: int = 0
    """How many were left out because each alone was too large for the receiver."""
    skip_reason: str = ""
    """Which one was left out last, and why."""
    lost: int = 0
    """How many a node has dropped, because too many waited on its disk."""
    queued: int = 0
    """How many wait; of what a server delivers, at most MOST_COUNTED, and only where they are counted."""
    test_id: str = ""
    """Of the newest test that a node has sent, or is to send."""
    test_problem: str = ""
    """Why it was not accepted; empty: it was."""


@dataclass(frozen=True)
class Sink(SinkProgress):
    """A destination, and the position of its delivery."""

    sink_id: str
    uid: str
    """Uid of the producer."""
    kind: SinkKind
    content: SinkContent
    address: str
    """https://…, mqtt[s]://[user:password@]host[:port]/topic, redis://[user:password@]host[:port]/database/stream or
    kafka[s]://[user:password@]host[:port][,host…]/topic[?key=…]; for files, a folder of the data home."""
    secret: str
    """whsec_… for HTTP; otherwise empty."""
    created_at: str
    cursor: int
    """Number of the last delivered one: n_loop of a row, event_id of an event."""
    sent_by: SentBy = SentBy.SERVER
    sent_from: str = ""
    """The node that delivers; empty: a server does, or it is not known."""
    by_node: Mapping[str, SinkProgress] = field(default_factory=dict)
    """What the nodes have reported that deliver to it."""

    @property
    def client_id(self) -> str:
        """Tells what delivers from others that deliver to the same receiver."""
        return "-".join(filter(None, (self.sink_id, self.sent_from)))

    @property
    def with_progress(self) -> Sink:
        """The sink with the sums of its nodes, and with the trouble of the one that has failed most often."""
        if not self.by_node:
            return self
        reports, summed = self.by_node.values(), ("delivered", "skipped", "lost", "queued")
        sums: JsonObject = {name: sum(getattr(one, name) for one in reports) for name in summed}
        sums["delivered_at"] = max((one.delivered_at for one in reports if one.delivered_at), default=None)
        sums["skip_reason"] = next((one.skip_reason for one in reports if one.skip_reason), "")
        node, worst = max(self.by_node.items(), key=lambda item: item[1].tries)
        problem = f"node {node}: {worst.problem}" if worst.problem and len(reports) > 1 else worst.problem
        return replace(self, **sums, tries=worst.tries, due_at=worst.due_at, problem=problem)

    @property
    def parcels(self) -> int:
        """How many rows or events the next try sends, at most."""
        return max(1, PARCELS >> self.tries)

    def changes_after(self, deliveries: Sequence[Delivery], problem: str, moment: datetime) -> JsonObject:
        """Returns the fields that change with a try. problem: why they were not accepted; empty: they were."""
        if problem:
            due_at = to_text(moment + timedelta(seconds=PAUSE.of_try(self.tries)))
            return {"tries": self.tries + 1, "due_at": due_at, "problem": problem[:500]}
        done: JsonObject = {"cursor": deliveries[-1].number, "delivered": self.delivered + len(deliveries)}
        return {**done, "delivered_at": to_text(moment), "tries": 0, "problem": ""}

    def changes_of_too_large(self, deliveries: Sequence[Delivery], problem: str) -> JsonObject:
        """As `changes_after`, if the receiver never takes so much at once: fewer are sent without a pause. One that is
        too large alone is left out, so that later ones follow. The next is tried alone, too: a receiver that takes none
        of them is not asked again for each size."""
        if len(deliveries) > 1:
            tries = max(self.tries + 1, PARCELS.bit_length() - len(deliveries).bit_length() + 1)
            return {"tries": tries, "problem": problem[:500]}
        (delivery,) = deliveries
        length = len(json.dumps(delivery.envelope))
        reason = f"{delivery.envelope['id']}, {length} bytes: {problem}"[:500]
        tries = max(self.tries, PARCELS.bit_length() - 1)
        left_out = {"cursor": delivery.number, "skipped": self.skipped + 1, "skip_reason": reason}
        return {**left_out, "tries": tries, "problem": ""}

    @property
    def shown_queue(self) -> str:
        return format_backlog(self.queued)

    @property
    def word(self) -> str:
        """idle: nothing waits; delivering; failing: the last try was in vain."""
        return "failing" if self.problem else "delivering" if self.queued else "idle"

    @property
    def shown_address(self) -> str:
        """The address without its password."""
        return hide_password(self.address)

    @property
    def trouble(self) -> str:
        """A sentence for its user if it is stuck; otherwise empty."""
        is_stuck = self.problem and self.tries >= STUCK_TRIES
        return f"The sink {self.shown_address!r} accepts nothing: {self.problem}." if is_stuck else ""


@dataclass(frozen=True)
class SinkOrder(JsonDocument):
    """All that a node is ordered to deliver for one producer."""

    producer: Producer
    sinks: tuple[Sink, ...]
    rules: RuleSet
    is_paused: bool = False
    """Everything waits: the producer's user is disabled."""


@dataclass(frozen=True)
class Delivery:
    """A row or an event to deliver."""

    number: int
    """Number of the row or event; they are delivered in this order."""
    envelope: Mapping[str, Any]
    """A CloudEvent."""
    is_test: bool = False
    """True for a test message."""


class TooLarge(Exception):
    """The receiver accepts no message, or no batch of messages, of this size; the text says what it answered."""


def stream_of(path: str) -> tuple[int, str]:
    """Returns the database's number and the stream's name, from the path of a Redis address."""
    database, _, name = unquote(path.strip("/")).partition("/")
    return int(database), name


def row_delivery(producer: Producer, record: FrameRecord, key: object = None) -> Delivery:
    """key: tells the row from others of its producer; None: its number does."""
    row = record.row
    objects = [
        {"label": one.label, "score": one.score, "bbox": list(one.box), **one.details()} for one in record.objects
    ]
    facts = {name: row[name] for name in FURTHER_KEYS if name in row}
    data = {"frame": record.n_loop, **facts, "counts": record.counts, "objects": objects}
    id_ = f"row/{record.n_loop if key is None else key}"
    return Delivery(record.n_loop, _build_envelope(producer, "row", id_, record.at, data))


def event_delivery(producer: Producer, event: RuleEvent, key: object = None) -> Delivery:
    """key: tells the event from others of its producer; None: its number does."""
    origin = {name: value for name, value in (("node", event.node), ("source", event.source)) if value}
    data = {
        **origin,
        "frame": event.n_loop,
        "rule": event.rule,
        "zone": event.zone,
        "text": event.text,
        "objects": list(event.objects),
    }
    id_ = f"event/{event.event_id if key is None else key}"
    return Delivery(event.event_id, _build_envelope(producer, "event", id_, event.at, data))


def test_delivery(producer: Producer, id_: str, at: str) -> Delivery:
    data = {"text": "A test of this sink."}
    return Delivery(0, _build_envelope(producer, "test", f"test/{id_}", at, data), is_test=True)


def _build_envelope(producer: Producer, kind: str, id_: str, at: str, data: Mapping[str, Any]) -> JsonObject:
    """Returns a CloudEvent (1.0). Its source and id together are unique for the row or event, however often it is
    delivered."""
    return {
        "specversion": "1.0",
        "id": id_,
        "source": producer.place,
        "type": f"modelmill.{producer.kind}.{kind}",
        "time": at,
        "datacontenttype": "application/json",
        "data": {**producer.facts, **data},
    }
