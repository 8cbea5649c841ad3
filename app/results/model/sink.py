"""The destinations of a producer's rows or events besides the database, and their envelope. Pure.

Everything to deliver is in the database already, under increasing numbers: a sink is a cursor over it. So an
unavailable sink costs nothing except its backlog, which is as long as rows are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from app.kit.backoff import GrowingPause
from app.kit.text.json_values import JsonObject
from app.results.model.event import RuleEvent
from app.results.model.frame_result import FrameRecord
from app.results.model.producer import Producer

PAUSE = GrowingPause(2.0, 300.0)
"""Pauses between two tries, in seconds."""
PASSWORD = re.compile(r"(?<=://)([^:/?#]*):[^/?#]*@")
STUCK_TRIES = 9
"""Failed tries in a row after which a sink counts as stuck: eight and a half minutes."""
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


@dataclass(frozen=True)
class Sink:
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


def row_delivery(producer: Producer, record: FrameRecord) -> Delivery:
    row = record.row
    objects = [
        {"label": one.label, "score": one.score, "bbox": list(one.box), **one.details()} for one in record.objects
    ]
    facts = {name: row[name] for name in FURTHER_KEYS if name in row}
    data = {"frame": record.n_loop, **facts, "counts": record.counts, "objects": objects}
    return Delivery(record.n_loop, _build_envelope(producer, "row", f"row/{record.n_loop}", record.at, data))


def event_delivery(producer: Producer, event: RuleEvent) -> Delivery:
    origin = {name: value for name, value in (("node", event.node), ("source", event.source)) if value}
    data = {
        **origin,
        "frame": event.n_loop,
        "rule": event.rule,
        "zone": event.zone,
        "text": event.text,
        "objects": list(event.objects),
    }
    return Delivery(event.event_id, _build_envelope(producer, "event", f"event/{event.event_id}", event.at, data))


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
