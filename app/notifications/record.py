"""Records the notifications for an event. Light, because every process that changes something imports it."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID, uuid5

from sqlalchemy import Connection

from app.kit import clock
from app.kit.clock import to_text
from app.kit.sql import Event, note_change
from app.kit.sql.events import EventListener
from app.notifications.model import Delivery, DeliveryState
from app.notifications.store import deliveries, targets

CHANGED = "outbox"
"""What a transaction that recorded a message notes as changed."""
NAMESPACE = UUID("6f5ad8f4-4f2b-4a44-9c3c-0c5ab2a6c9a5")


def listener(url_of: Callable[[str], str]) -> EventListener:
    """Returns a listener that records who is notified of an event, in the event's own transaction.

    Args:
        url_of: returns the address of a page, given its path.
    """

    def record(conn: Connection, event: Event) -> None:
        ids = targets.list_interested(conn, event.owner, event.kind, event.subject)
        added = [target_id for target_id in ids if deliveries.add(conn, delivery_of(event, target_id, url_of))]
        if added:
            note_change(conn, CHANGED)

    return record


def delivery_of(event: Event, target_id: str, url_of: Callable[[str], str]) -> Delivery:
    """Returns the message of an event for a target: always the same one, including its id."""
    data = {
        "event_id": event.event_id,
        "subject": event.subject,
        "name": event.name,
        "url": url_of(event.path) if event.path else "",
        **event.facts,
    }
    body = json.dumps({"type": event.kind, "timestamp": event.at, "data": data}, ensure_ascii=False)
    delivery_id = f"msg_{uuid5(NAMESPACE, f'{target_id} {event.event_id}').hex}"
    written = to_text(clock.now())
    return Delivery(
        delivery_id, target_id, event.kind, body, DeliveryState.PENDING, 0, written, written, patience_from=written
    )
