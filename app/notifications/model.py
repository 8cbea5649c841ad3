"""Targets, events, and the outcome of each message. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.kit.backoff import GrowingPause

PAUSE = GrowingPause(30.0, 4 * 3600.0)
"""Between two tries of a message, in seconds."""
PATIENCE_S = 24 * 3600.0
"""A message that was not accepted for this long, in seconds, is given up."""


class Kind(StrEnum):
    WEBHOOK = "webhook"
    """Standard Webhooks: signed JSON."""
    EMAIL = "email"
    CHAT = "chat"
    """A payload for Slack's incoming webhooks."""


class EventKind(StrEnum):
    JOB_COMPLETED = "job.completed"
    JOB_FAILED = "job.failed"
    TASK_SUCCEEDED = "task.succeeded"
    TASK_FAILED = "task.failed"
    TASK_CANCELED = "task.canceled"
    SERVICE_RUNNING = "service.running"
    SERVICE_PENDING = "service.pending"
    SERVICE_FAILED = "service.failed"
    SERVICE_DRIFT = "service.drift"
    """What it sees is far from its reference."""
    SERVICE_ROLLED_BACK = "service.rolled_back"
    """All its nodes have returned to the former model."""
    SERVICE_ALERT = "service.alert"
    """It answers, but something has not worked for minutes: the cloud, a source, a broadcast, a sink; each is told."""
    SERVICE_CLEAR = "service.clear"
    SERVICE_EVENT = "service.event"
    """A rule of the user's held."""
    VIDEO_ENDED = "video.ended"
    VIDEO_ALERT = "video.alert"
    VIDEO_CLEAR = "video.clear"
    VIDEO_EVENT = "video.event"
    """A rule of the user's held."""


TEST = "test"
"""What `Delivery.event_kind` is for a test message: each target can receive one, and none selects it."""


class DeliveryState(StrEnum):
    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Target:
    """Where a user wants to be notified."""

    target_id: str
    owner: str
    kind: Kind
    address: str
    """A URL or an e-mail address."""
    secret: str
    """whsec_… for a webhook; otherwise empty."""
    events: tuple[EventKind, ...]
    """Empty for all."""
    subject: str
    """Only events of this subject, such as `job:<id>`; empty for all."""
    label: str
    language: str
    """BCP 47 tag of the reader's language."""
    created_at: str
    is_enabled: bool = True
    problem: str = ""
    """Why it was switched off, if the user did not do it."""


@dataclass(frozen=True)
class Delivery:
    """One message to one target."""

    delivery_id: str
    """The same at every try, so that the receiver recognizes a message that it already has."""
    target_id: str
    event_kind: str
    """An EventKind, or TEST."""
    body: str
    """JSON: {"type", "timestamp", "data"}."""
    state: DeliveryState
    tries: int
    created_at: str
    due_at: str
    patience_from: str
    """Since when it is tried; differs from created_at after it was sent again by hand."""
    ended_at: str | None = None
    status: int | None = None
    """Last HTTP status or SMTP code of the receiver."""
    problem: str = ""
    """Why the last try failed."""


@dataclass(frozen=True)
class Outcome:
    """The result of a try."""

    is_delivered: bool
    status: int | None = None
    problem: str = ""
    is_final: bool = False
    """It would be refused again, however often it is tried."""
    is_gone: bool = False
    """The receiver wants no more messages: 410."""
    retry_after_s: float = 0.0
    """Seconds for which the receiver wants no further tries."""
