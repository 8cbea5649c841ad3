"""Targets, events, and the outcome of each message. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.kit.backoff import GrowingPause

PAUSE = GrowingPause(30.0, 4 * 3600.0)
"""Between two tries of a message."""
PATIENCE_S = 24 * 3600.0
"""A message that was not taken for so long is given up."""


class Kind(StrEnum):
    WEBHOOK = "webhook"
    """Standard Webhooks: signed JSON."""
    EMAIL = "email"
    CHAT = "chat"
    """A payload as Slack's incoming webhooks take it."""


class EventKind(StrEnum):
    JOB_COMPLETED = "job.completed"
    JOB_FAILED = "job.failed"
    TASK_SUCCEEDED = "task.succeeded"
    TASK_FAILED = "task.failed"
    TASK_CANCELED = "task.canceled"
    SERVICE_RUNNING = "service.running"
    SERVICE_PENDING = "service.pending"
    SERVICE_FAILED = "service.failed"
    VIDEO_ENDED = "video.ended"
    VIDEO_ALERT = "video.alert"
    VIDEO_CLEAR = "video.clear"
    VIDEO_EVENT = "video.event"
    """A rule of its user's held."""
    TEST = "test"
    """Somebody pressed the button; no target lists it, and all take it."""


class DeliveryState(StrEnum):
    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class Target:
    """Where a user wants to be told of something."""

    target_id: str
    owner: str
    kind: Kind
    address: str
    """A URL or an e-mail address."""
    secret: str
    """whsec_…, of a webhook; else empty."""
    events: tuple[EventKind, ...]
    """Empty: all."""
    subject: str
    """`job:<id>` and the like, of which alone it is told; empty: of all."""
    label: str
    language: str
    """BCP 47 tag of the reader's language."""
    created_at: str
    is_enabled: bool = True
    problem: str = ""
    """Why it was switched off, if its user did not do it."""


@dataclass(frozen=True)
class Delivery:
    """One message to one target."""

    delivery_id: str
    """The same at every try: by it the receiver sees that it has the message already."""
    target_id: str
    event_kind: str
    body: str
    """JSON: {"type", "timestamp", "data"}."""
    state: DeliveryState
    tries: int
    created_at: str
    due_at: str
    patience_from: str
    """Since when it is tried; another time than created_at once it was sent again by hand."""
    ended_at: str | None = None
    status: int | None = None
    """The receiver's last HTTP status or SMTP code."""
    problem: str = ""
    """Why the last try failed."""


@dataclass(frozen=True)
class Outcome:
    """How a try went."""

    is_delivered: bool
    status: int | None = None
    problem: str = ""
    is_final: bool = False
    """It would be refused however often it were tried."""
    is_gone: bool = False
    """The receiver wants nothing more: 410."""
    retry_after_s: float = 0.0
    """The receiver wants to be left alone for so long."""
