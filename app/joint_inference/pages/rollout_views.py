"""How the nodes of a service with several look to a reader, and the roll-out of a model to them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.joint_inference.model.resource import Service
from app.joint_inference.model.rollout import (
    Comparison,
    Rollout,
    RolloutAction,
    RolloutPolicy,
    acted,
    change_text,
    policy_of,
)
from app.joint_inference.model.stream import stream_end
from app.joint_inference.pages.view_models import ServiceFigures, ServiceWorkerView
from app.joint_inference.service.rollouts import comparison_of, rollout_of


@dataclass(frozen=True)
class FleetNode:
    """An edge node of a service that has several."""

    worker: ServiceWorkerView
    figures: ServiceFigures | None
    problem: str
    """Why it does not serve, or what its source lacks; empty: nothing."""


def fleet_node(worker: ServiceWorkerView) -> FleetNode:
    report = worker.report
    end = stream_end(report.detail) if report is not None else None
    message = (end.message if end is not None else "") or (
        (report.message or report.reason) if report is not None else ""
    )
    return FleetNode(worker, worker.figures, message)


@dataclass(frozen=True)
class WaveNode:
    """A node that has the target of a roll-out, or is to get it."""

    name: str
    has_target: bool
    runs: Mapping[str, Any] | None
    comparison: Comparison


@dataclass(frozen=True)
class RolloutView:
    rollout: Rollout
    change: str
    policy: RolloutPolicy
    waves: tuple[tuple[str, str], ...]
    """The size of each, and whether it is done, current or waiting."""
    nodes: tuple[WaveNode, ...]
    actions: tuple[RolloutAction, ...]
    """What can be done with it now."""


def rollout_view(service: Service, edges: Sequence[ServiceWorkerView]) -> RolloutView | None:
    """None: a new model goes to all nodes at once."""
    rollout, policy = rollout_of(service), policy_of(service.spec)
    if rollout is None or policy is None:
        return None
    nodes = tuple(
        WaveNode(
            edge.specification.node,
            edge.specification.node in rollout.nodes,
            edge.runs,
            comparison_of(edge.report.detail) if edge.report is not None else Comparison(),
        )
        for edge in edges
    )
    waves = tuple(
        (size, "done" if place < rollout.wave else "current" if place == rollout.wave else "waiting")
        for place, size in enumerate(policy.waves)
    )
    actions = tuple(action for action in RolloutAction if acted(rollout, action) is not None)
    return RolloutView(rollout, change_text(rollout), policy, waves, nodes, actions)
