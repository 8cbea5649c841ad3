"""Tells the user of a service of each of its problems that lasts, and when it is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.model.resource import Service
from app.joint_inference.model.status import Condition, ConditionType
from app.joint_inference.service.rollouts import service_event
from app.joint_inference.store import LastingProblem
from app.kit.clock import from_text, to_text
from app.kit.sql import publish

ALERT_AFTER_S = 300.0
"""A shorter trouble is shown on the page only."""
ALERT, EASED, CLEAR = "DegradedForLong", "ProblemOver", "Recovered"
"""Reasons of the service's events: a problem lasts; it is over, others remain; all are over."""


def note_trouble(conn: Connection, service: Service, condition: Condition, now: datetime) -> None:
    """Adds an event and a notification for each problem that has lasted for ALERT_AFTER_S, and when it is over.

    Args:
        service: locked.
        condition: its new one; unless it runs, no problem is over.
    """
    at, before = to_text(now), store.problems_of(conn, service.uid)
    known = before if condition.type is not ConditionType.RUNNING else {}
    after = {name: before.get(name) or LastingProblem(at) for name in (*known, *condition.problems)}
    begun = sorted(name for name in condition.problems if not after[name].is_told and _is_long(after[name], now))
    after |= {name: replace(after[name], is_told=True) for name in begun}
    over = sorted(name for name, one in before.items() if one.is_told and name not in after)
    told = sorted(name for name, one in after.items() if one.is_told)
    if after != before:
        store.put_problems(conn, service.uid, after)
    facts = {"condition": condition.type.value, "flags": told}
    if over:
        store.add_event(conn, service.uid, at, type="Normal", reason=EASED if told else CLEAR, message="")
        publish(conn, service_event(service, "service.clear", at, {**facts, "over": over}))
    if begun:
        message = "\n".join(condition.problems[name] for name in begun)
        store.add_event(conn, service.uid, at, type="Warning", reason=ALERT, message=message)
        alert = {**facts, "code": str(condition.reason), "reason": message, "begun": begun}
        publish(conn, service_event(service, "service.alert", at, alert))


def _is_long(problem: LastingProblem, now: datetime) -> bool:
    return (now - from_text(problem.since)).total_seconds() >= ALERT_AFTER_S
