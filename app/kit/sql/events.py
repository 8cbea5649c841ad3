"""Events about a user's resource, published in the transaction of the change.

The code that changes the resource publishes the event on the connection of the change. The database has a listener;
what the listener writes is committed or rolled back with the change, so no event is lost and none is invented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection


@dataclass(frozen=True)
class Event:
    """Something that has happened to a thing of a user, for those who listen: see `publish`."""

    event_id: str
    """The same for the same event, however often it is published: subject, kind, and a discriminator from later
    ones."""
    kind: str
    """Such as `job.completed`."""
    owner: str
    subject: str
    """Its subject: `job:<id>`, `task:<id>`, `service:<uid>`, `video:<uid>`."""
    name: str
    """The subject's name for its reader."""
    at: str
    """ISO 8601 in UTC."""
    path: str = ""
    """The URL of its page."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON-serializable."""


EventListener = Callable[[Connection, Event], None]
LISTENER = "modelmill_event_listener"


def publish(connection: Connection, event: Event) -> None:
    """Passes the event to the listener of this connection's database, if it has one.

    Args:
        connection: The writing transaction in which it happens.
        event: The event; it may be published repeatedly.
    """
    listener: EventListener | None = connection.info.get(LISTENER)
    if listener is not None:
        listener(connection, event)
