"""What happened to a thing of a user's, told in the transaction in which it happens.

Whoever changes the thing publishes the event on the connection of the change. The database was given a listener when it
was put together; what that writes stands or falls with the change, so no event is lost and none is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection


@dataclass(frozen=True)
class Event:
    event_id: str
    """The same for the same event, however often it is published: subject, kind, and what tells it from a later one."""
    kind: str
    """As `job.completed`."""
    owner: str
    subject: str
    """What it is about: `job:<id>`, `task:<id>`, `service:<uid>`, `video:<uid>`."""
    name: str
    """What its reader calls the thing."""
    at: str
    """ISO 8601 in UTC."""
    path: str = ""
    """Of its page."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able."""


EventListener = Callable[[Connection, Event], None]
LISTENER = "modelmill_event_listener"


def publish(connection: Connection, event: Event) -> None:
    """Tell the listener of this connection's database, if it has one.

    Args:
        connection: Of the transaction, one that writes, in which it happens.
        event: What happens; the same may be published again.
    """
    listener: EventListener | None = connection.info.get(LISTENER)
    if listener is not None:
        listener(connection, event)
