"""The destinations of a producer's rows or events besides the database, and their envelope. Pure.

Everything to deliver is in the database already, under increasing numbers: a sink is a cursor over it. So an
unavailable sink costs nothing except its backlog, which is as long as rows are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import unquote, urlsplit

from app.kit.backoff import GrowingPause
from app.results.model.event import RuleEvent
from app.results.model.frame_result import FrameRecord
from app.results.model.producer import Producer

PAUSE = GrowingPause(2.0, 300.0)
"""Between two tries, in seconds."""
PORTS = {"mqtt": 1883, "mqtts": 8883, "redis": 6379}
"""By the scheme of an address."""
MOST_SINKS = 5
"""Of a producer."""


TOLD = ("pts", "size", "tracked", "sample", "answered_by", "is_hard", "node")
"""Of a row beside its counts and objects, where it has them."""


class SinkKind(StrEnum):
    HTTP = "http"
    """CloudEvents in batches of JSON, signed as Standard Webhooks are."""
    MQTT = "mqtt"
    """MQTT 5, a message a row or event."""
    HOME_ASSISTANT = "home_assistant"
    """MQTT 5: sensors that Home Assistant finds by itself, and the last state, retained."""
    REDIS = "redis"
    """An entry of a stream a row or event."""
    FILE = "file"
    """JSON Lines in the data home of the producer's owner."""


class SinkContent(StrEnum):
    ROWS = "rows"
    EVENTS = "events"
    """Of its rules."""


@dataclass(frozen=True)
class Sink:
    """Where to, and how far it is."""

    sink_id: str
    uid: str
    """Of the producer."""
    kind: SinkKind
    content: SinkContent
    address: str
    """https://…, mqtt[s]://[user:password@]host[:port]/topic or redis://[user:password@]host[:port]/database/stream; of
    files, a folder of the home."""
    secret: str
    """whsec_…, of HTTP; else empty."""
    created_at: str
    cursor: int
    """Number of the last one that was delivered: n_loop of a row, event_id of an event."""
    delivered: int = 0
    """How many so far."""
    delivered_at: str | None = None
    """When the last ones were."""
    tries: int = 0
    """That failed since then."""
    due_at: str = ""
    """Not tried before."""
    problem: str = ""
    """Why the last try failed; empty: it did not."""

    @property
    def shown_address(self) -> str:
        """Without a password."""
        parts = urlsplit(self.address)
        if parts.password is None:
            return self.address
        return parts._replace(netloc=f"{parts.username}:***@{parts.netloc.rpartition('@')[2]}").geturl()


@dataclass(frozen=True)
class Delivery:
    """One thing to deliver."""

    number: int
    """Of the row or event; they are delivered in this order."""
    envelope: Mapping[str, Any]
    """A CloudEvent."""
    is_test: bool = False
    """It says nothing but that it arrives."""


def stream_of(path: str) -> tuple[int, str]:
    """Number of the database and name of the stream, of the path of an address of Redis."""
    database, _, name = unquote(path.strip("/")).partition("/")
    return int(database), name


def row_delivery(producer: Producer, record: FrameRecord) -> Delivery:
    row = record.row
    objects = [{"label": one.label, "score": one.score, "bbox": list(one.box)} for one in record.objects]
    facts = {name: row[name] for name in TOLD if name in row}
    data = {"frame": record.n_loop, **facts, "counts": record.counts, "objects": objects}
    return Delivery(record.n_loop, _envelope(producer, "row", f"row/{record.n_loop}", record.at, data))


def event_delivery(producer: Producer, event: RuleEvent) -> Delivery:
    data = {
        "frame": event.n_loop,
        "rule": event.rule,
        "zone": event.zone,
        "text": event.text,
        "objects": list(event.objects),
    }
    return Delivery(event.event_id, _envelope(producer, "event", f"event/{event.event_id}", event.at, data))


def test_delivery(producer: Producer, id_: str, at: str) -> Delivery:
    data = {"text": "A test of this sink."}
    return Delivery(0, _envelope(producer, "test", f"test/{id_}", at, data), is_test=True)


def _envelope(producer: Producer, kind: str, id_: str, at: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """CloudEvents 1.0; source and id together are of this row or event alone, however often it is delivered."""
    return {
        "specversion": "1.0",
        "id": id_,
        "source": producer.place,
        "type": f"modelmill.{producer.kind}.{kind}",
        "time": at,
        "datacontenttype": "application/json",
        "data": {**producer.facts, **data},
    }
