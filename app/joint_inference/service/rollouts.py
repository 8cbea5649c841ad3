"""Roll-outs of edge models: what nodes report of them, and what users do with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.inference.model_card import ModelCard
from app.joint_inference import store
from app.joint_inference.errors import NoSuchRollout
from app.joint_inference.model.reconciliation import key_of
from app.joint_inference.model.resource import Role, Service
from app.joint_inference.model.rollout import (
    COMPARISON,
    ROLLOUT,
    Comparison,
    NodeHealth,
    Rollout,
    RolloutAction,
    RolloutState,
    acted,
    advance,
    change_text,
    policy_of,
)
from app.joint_inference.model.status import Condition, ConditionType, Reason
from app.kit.clock import to_text
from app.kit.sql import Database, Event, publish
from app.kit.text.json_form import FormError
from app.kit.text.plain_text import names_text
from app.nodes.model import Node, WorkerReport, WorkerState

ROLLED_BACK = "service.rolled_back"
Placement = tuple[Service, Node | None]
"""A service as it is for one of its edge nodes, and this node; None: there is none that its user may use."""


def service_event(service: Service, kind: str, at: str, facts: Mapping[str, Any]) -> Event:
    """An event for the service's user.

    Args:
        service: which.
        kind: of the event.
        at: when it happened.
        facts: what else is told of it.
    """
    subject, name = f"service:{service.uid}", f"{service.namespace}/{service.name}"
    named = {"namespace": service.namespace, "service": service.name, **facts}
    path = f"/ui/services/{name}"
    return Event(f"{subject}:{kind}:{at}", kind, service.owner, subject, name, at, path, named)


def rollout_of(service: Service) -> Rollout | None:
    """As it is stored; None: the service has none."""
    return ROLLOUT.read(service.rollout) if service.rollout else None


def next_rollout(
    service: Service, model: ModelCard | None, placements: Sequence[Placement], now: datetime
) -> Rollout | None:
    """What the roll-out of a service is now; None: its specification wants none.

    Args:
        model: what its name of the edge model means; None: there is none of this name.
        placements: all of its edge nodes.
    """
    policy = policy_of(service.spec)
    if policy is None or model is None:
        return rollout_of(service) if policy is not None else None
    rollout = rollout_of(service)
    return advance(
        rollout, policy, model, [_judge_health(placed, node, now) for placed, node in placements if node], now
    )


def condition_with(rollout: Rollout | None, condition: Condition) -> Condition:
    """The condition of a service that serves says how its roll-out is; other troubles come first."""
    if rollout is None or (condition.type, condition.reason) != (ConditionType.RUNNING, Reason.SERVING):
        return condition
    if rollout.is_under_way:
        return Condition(ConditionType.RUNNING, Reason.ROLLING_OUT, _format_progress(rollout))
    if rollout.state is RolloutState.ROLLED_BACK:
        message = f"{change_text(rollout)}: taken back. {rollout.reason}"
        return Condition(ConditionType.RUNNING, Reason.ROLLED_BACK, message)
    return condition


def note_change(conn: Connection, service: Service, rollout: Rollout | None, now: datetime) -> Mapping[str, Any]:
    """Add an event where the roll-out has changed.

    Args:
        service: as it was before.
        rollout: as it is now; None: it has none.

    Returns:
        What is stored of it.
    """
    before, after = rollout_of(service), ROLLOUT.write(rollout) if rollout is not None else {}
    if rollout is not None and before is not None and after != service.rollout:
        reason, message = _describe_event(before, rollout)
        at = to_text(now)
        store.add_event(conn, service.uid, at, type="Changed", reason=reason, message=message)
        if rollout.state is RolloutState.ROLLED_BACK is not before.state:
            publish(conn, service_event(service, ROLLED_BACK, at, {"code": reason, "reason": message}))
    return after


class Rollouts:
    """What users do with roll-outs.

    Args:
        notify: called after one has changed.
    """

    def __init__(self, database: Database, notify: Callable[[Service], Service]) -> None:
        self._database = database
        self._notify = notify

    def act(self, service: Service, action: RolloutAction, *, now: datetime) -> Service:
        """Changes a roll-out by hand.

        Raises:
            NoSuchRollout: There is none, or none with which that can be done.
        """
        with self._database.write() as conn:
            fresh = store.lock(conn, service.uid) or service
            rollout = rollout_of(fresh)
            changed = acted(rollout, action) if rollout is not None else None
            if changed is None:
                state = rollout.state.value if rollout is not None else ""
                raise NoSuchRollout(
                    f"The roll-out is {state}." if state else "The service has no roll-out.",
                    hint="Its page shows what can be done.",
                )
            stored = store.change_service(conn, fresh, rollout=note_change(conn, fresh, changed, now))
        return self._notify(stored or fresh)


def _judge_health(placed: Service, node: Node, now: datetime) -> NodeHealth:
    report = node.worker(key_of(placed, Role.EDGE))
    if report is None:
        return NodeHealth(node.name, node.is_online(now))
    detail = report.detail
    return NodeHealth(
        node.name, node.is_online(now), str(detail.get("sha256") or ""), _read_failure(report), comparison_of(detail)
    )


def _read_failure(report: WorkerReport) -> str:
    """A worker that could not be changed goes on as it was: that is no failure of the new model."""
    if report.state not in (WorkerState.FAILED, WorkerState.BACKOFF) or report.former_generation:
        return ""
    code = f" with exit code {report.exit_code}" if report.exit_code is not None else ""
    return f"the worker has ended{code}: {report.message or report.reason}"


def comparison_of(detail: Mapping[str, Any]) -> Comparison:
    """What a worker reports of the model that it runs and the former one; nothing of others."""
    reported = detail.get("comparison")
    if not isinstance(reported, Mapping) or reported.get("sha256") != detail.get("sha256"):
        return Comparison()
    try:
        return COMPARISON.read(reported)
    except FormError:
        return Comparison()


def _format_progress(rollout: Rollout) -> str:
    state = "paused in" if rollout.state is RolloutState.PAUSED else "in"
    return f"{change_text(rollout)}: {state} wave {rollout.wave + 1}, on {len(rollout.nodes)} nodes."


def _describe_event(before: Rollout, after: Rollout) -> tuple[str, str]:
    change = change_text(after if after.state is not RolloutState.COMPLETE else before)
    match after.state:
        case RolloutState.ROLLED_BACK:
            return "RolledBack", f"{change}: taken back. {after.reason}"
        case RolloutState.COMPLETE:
            return "RolloutComplete", f"{change}: all nodes are told to run {after.target.name!r}."
        case RolloutState.PAUSED:
            return "RolloutPaused", f"{change}: no further wave begins."
        case RolloutState.PROGRESSING:
            added = [node for node in after.nodes if node not in before.nodes or before.target != after.target]
            names = names_text(added, 10)
            if not added:
                return "RolloutResumed", f"{change}: it goes on."
            return "RolloutWave", f"{change}: wave {after.wave + 1} begins on {names}."
