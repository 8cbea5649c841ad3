"""Tells the user of a service that it has been degraded for long, and when that is over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.model.resource import Service
from app.joint_inference.model.status import ConditionType, Reason, current_of
from app.joint_inference.service.rollouts import service_event
from app.kit.clock import from_text, to_text
from app.kit.sql import publish

ALERT_AFTER_S = 300.0
"""A shorter trouble is shown on the page only."""
ALERT, CLEAR = "DegradedForLong", "Recovered"
"""Reasons of the service's events."""


def note_trouble(conn: Connection, service: Service, status: Mapping[str, Any], now: datetime) -> None:
    """Adds an event and a notification when the service has been degraded for ALERT_AFTER_S, and when it serves again.

    Args:
        service: locked.
        status: its new one.
    """
    current = current_of(status)
    if current is None or current["type"] != ConditionType.RUNNING:
        return
    is_told, at = store.newest_reason(conn, service.uid, (ALERT, CLEAR)) == ALERT, to_text(now)
    if current["reason"] != Reason.DEGRADED:
        if is_told:
            store.add_event(conn, service.uid, at, type="Normal", reason=CLEAR, message="")
            publish(conn, service_event(service, "service.clear", at, {"condition": current["type"]}))
        return
    lasts_s = (now - from_text(current["lastTransitionTime"])).total_seconds()
    if lasts_s >= ALERT_AFTER_S and not is_told:
        message = str(current["message"])
        store.add_event(conn, service.uid, at, type="Warning", reason=ALERT, message=message)
        facts = {"condition": str(current["type"]), "code": str(current["reason"]), "reason": message}
        publish(conn, service_event(service, "service.alert", at, facts))
