"""What users are shown of a worker of their service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.inference.model_card import version_on
from app.joint_inference.model.reconciliation import key_of
from app.joint_inference.model.resource import Role, Service
from app.joint_inference.model.state import running_model
from app.nodes.model import Node, WorkerReport


@dataclass(frozen=True)
class WorkerView:
    """A worker and its node's report of it."""

    role: Role
    name: str
    node: str
    """The name of its node."""
    model: str
    """The name of its model."""
    is_online: bool
    """Whether the node is connected."""
    report: WorkerReport | None
    """As users see it; None: there is none yet."""
    sha256: str
    """Of the model that the node was ordered to run; empty: it has no order yet."""
    version: int | None
    """Of this model; None: it has no order yet."""
    runs: Mapping[str, Any] | None
    """What runs, as far as the worker says: name of the model, version, sha256."""
    reported: Mapping[str, Any]
    """The last taskInfo of an edge worker."""


def worker_view(
    service: Service,
    role: Role,
    node: Node | None,
    contents: Mapping[tuple[str, str], Mapping[str, Any]],
    now: datetime,
) -> WorkerView:
    """A worker of a service.

    Args:
        service: as it is for the node of this worker.
        node: None: there is none of that name for its user.
        contents: of its orders, by role and node.
    """
    worker = service.specification.worker(role)
    is_online = node is not None and node.is_online(now)
    report = node.worker(key_of(service, role)) if node else None
    card = contents.get((role.value, worker.node), {}).get("model") or {}
    return WorkerView(
        role,
        worker.name,
        worker.node,
        worker.model,
        is_online,
        report.shown if report is not None else None,
        sha256=str(card.get("sha256", "")),
        version=version_on(card["name"])[1] if card else None,
        runs=running_model(report),
        reported=service.reported if role is Role.EDGE else {},
    )
