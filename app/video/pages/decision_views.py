"""How the decisions on a job's plan look to a reader: what each of them changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.kit.text.json_values import is_number
from app.video.service import DecisionRecord


@dataclass(frozen=True)
class PlanChange:
    """What a plan changed."""

    what: str
    """A field of video_conf, or a stage with `place` or `model`."""
    stage: str
    before: str
    after: str


@dataclass(frozen=True)
class DecisionView:
    """A decision as the page tells it."""

    decided: DecisionRecord
    changes: tuple[PlanChange, ...]
    is_first: bool
    times: int = 1
    """How often in turn it was decided that all stays; the newest of them is told."""


def decisions_of(log: Sequence[DecisionRecord]) -> list[DecisionView]:
    """log: newest first. Each is compared with the plan that was in force before it; where all stays again and again,
    that is told once."""
    views: list[DecisionView] = []
    before: Mapping[str, Any] | None = None
    for decided in reversed(log):
        if views and _stays_on(views[-1].decided, decided):
            views[-1] = replace(views[-1], decided=decided, times=views[-1].times + 1)
            continue
        if decided.plan is None:
            views.append(DecisionView(decided, (), is_first=False))
            continue
        views.append(DecisionView(decided, changes_between(before, decided.plan), is_first=before is None))
        before = decided.plan
    return views[::-1]


def _stays_on(before: DecisionRecord, now: DecisionRecord) -> bool:
    return before.outcome == now.outcome == "same" and before.policy == now.policy


def changes_between(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> tuple[PlanChange, ...]:
    """Of two plans as JSON."""
    if before is None:
        return ()
    changes = []
    old, new = before.get("video_conf", {}), after.get("video_conf", {})
    for key, value in new.items():
        if old.get(key) != value:
            changes.append(PlanChange(key, "", _to_text(old.get(key)), _to_text(value)))
    for stage, place in after.get("flow_mapping", {}).items():
        was = before.get("flow_mapping", {}).get(stage, {})
        if (was.get("node_ip"), was.get("node")) != (place.get("node_ip"), place.get("node")):
            changes.append(PlanChange("place", stage, _get_node(was), _get_node(place)))
        if was.get("model_id") != place.get("model_id"):
            changes.append(PlanChange("model", stage, _to_text(was.get("model_id")), _to_text(place.get("model_id"))))
    return tuple(changes)


def _to_text(value: object) -> str:
    return f"{value:g}" if is_number(value) else str(value if value is not None else "")


def _get_node(place: Mapping[str, Any]) -> str:
    return str(place.get("node") or place.get("node_ip") or "")
