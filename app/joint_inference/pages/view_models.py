"""How a service looks to a reader: its state, what was counted and its workers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from app.joint_inference.model.reconciliation import key_of
from app.joint_inference.model.resource import Role, Service, Worker
from app.joint_inference.model.sources import (
    BROADCASTS,
    SOURCES,
    SourceBroadcast,
    SourceState,
    source_broadcasts,
    source_states,
)
from app.joint_inference.model.state import running_model
from app.joint_inference.model.status import ConditionType, Reason, current_of
from app.joint_inference.model.stream import STREAM
from app.joint_inference.model.tally import upload_share_key
from app.kit.text.json_values import number_in, whole_in
from app.kit.web import charts
from app.nodes.model import Node, WorkerReport

ENDING = "Ending"
SAID_ELSEWHERE = frozenset({"runtime", "why", "model", "sha256", "comparison", STREAM, SOURCES, BROADCASTS})
"""Of what a worker says of itself: what has a place of its own."""


@dataclass(frozen=True)
class ConditionView:
    """The condition of a service, as a page shows it."""

    type: str
    """Of the current condition, or ENDING."""
    reason: str
    message: str
    """As the controller wrote it."""
    since: str

    @property
    def look(self) -> str:
        """The color of its badge."""
        if self.type == ConditionType.RUNNING and self.reason != Reason.SERVING:
            return "busy"
        return {"Running": "ok", "Failed": "bad", ENDING: "busy"}.get(self.type, "wait")


@dataclass(frozen=True)
class ServiceFigures:
    """What a service has counted. None if the worker does not say."""

    total: int
    hard: int
    edge: int
    """So many final answers were the small model's."""
    cloud: int
    """So many were the big model's."""
    fallback: int
    """So many were the small model's, for the big one's was missing."""
    kept: int | None
    failed: int | None
    upload_ratio: float
    bytes: int | None
    bytes_saved: int
    """So many were held back by the byte budget."""
    bytes_month: int
    """So many went up in this month."""
    fps: float | None
    breaker: str
    last_error: str
    edge_ms: tuple[float | None, float | None]
    cloud_ms: tuple[float | None, float | None]
    at: str

    @property
    def bar(self) -> Markup:
        return charts.bar(self.upload_ratio, 1.0)


@dataclass(frozen=True)
class ServiceWorkerView:
    """A worker of a service: what it is to be, and what it is."""

    role: Role
    specification: Worker
    node: Node | None
    """None if there is none of this name."""
    is_online: bool
    report: WorkerReport | None
    """None while its node says nothing of it."""
    runtime: str
    why: str
    """Why something else runs than what was named; empty: that does."""
    runs: Mapping[str, Any] | None
    """Name, version and hash of the model that runs; None: the worker does not say."""
    detail: Mapping[str, str]
    """What else the worker says of itself."""
    figures: ServiceFigures | None
    """What an edge worker has counted."""
    sources: tuple[SourceState, ...] = ()
    """Of an edge worker's streams."""
    broadcasts: tuple[SourceBroadcast, ...] = ()
    """Of these streams."""


def condition_of(service: Service) -> ConditionView:
    if service.deleted_at is not None:
        return ConditionView(ENDING, "Terminating", "", service.deleted_at)
    condition = current_of(service.status)
    if condition is None:
        return ConditionView("Pending", Reason.ACCEPTED.value, "", service.created_at)
    return ConditionView(
        str(condition.get("type", "")),
        str(condition.get("reason", "")),
        str(condition.get("message", "")),
        str(condition.get("lastTransitionTime") or service.created_at),
    )


def warnings_of(service: Service) -> list[Mapping[str, Any]]:
    entries = service.status.get("conditions") or ()
    return [entry for entry in entries if entry.get("type") == "Warning" and entry.get("status") == "True"]


def figures_of(task_info: Mapping[str, Any]) -> ServiceFigures | None:
    """None while nothing was reported. A worker of the user's own may say no more than the requirement's fields."""
    if "inferenceNumber" not in task_info:
        return None
    total, hard = whole_in(task_info, "inferenceNumber") or 0, whole_in(task_info, "hardExampleNumber") or 0
    cloud = whole_in(task_info, "uploadNumber")
    cloud = min(total, hard) if cloud is None else cloud
    fallback = whole_in(task_info, "fallbackNumber") or 0
    return ServiceFigures(
        total=total,
        hard=hard,
        edge=max(0, total - cloud - fallback),
        cloud=cloud,
        fallback=fallback,
        kept=whole_in(task_info, "keptNumber"),
        failed=whole_in(task_info, "uploadFailedNumber"),
        upload_ratio=number_in(task_info, upload_share_key(task_info)) or 0.0,
        bytes=whole_in(task_info, "bytesUploaded"),
        bytes_saved=whole_in(task_info, "bytesSaved") or 0,
        bytes_month=whole_in(task_info, "bytesThisMonth") or 0,
        fps=number_in(task_info, "fps"),
        breaker=str(task_info.get("breaker") or ""),
        last_error=str(task_info.get("lastError") or ""),
        edge_ms=(number_in(task_info, "edgeMsP50"), number_in(task_info, "edgeMsP95")),
        cloud_ms=(number_in(task_info, "cloudMsP50"), number_in(task_info, "cloudMsP95")),
        at=str(task_info.get("currentTime") or ""),
    )


def worker_of(service: Service, role: Role, node: Node | None, *, is_online: bool) -> ServiceWorkerView:
    """A worker of a service, as its page shows it.

    Args:
        node: that it is to run on; None: there is none of this name.
        is_online: whether that node is.
    """
    reported = node.worker(key_of(service, role)) if node else None
    report = reported.shown if reported is not None else None
    detail = {
        str(key): str(value) for key, value in (report.detail if report else {}).items() if value not in ("", None)
    }
    further = {key: value for key, value in detail.items() if key not in SAID_ELSEWHERE}
    runtime, why = detail.get("runtime", ""), detail.get("why", "")
    worker = service.specification.worker(role)
    figures = figures_of(service.reported) if role is Role.EDGE else None
    return ServiceWorkerView(
        role,
        worker,
        node,
        is_online,
        report,
        runtime,
        why,
        running_model(report),
        further,
        figures,
        tuple(source_states(report.detail)) if report else (),
        tuple(source_broadcasts(report.detail)) if report else (),
    )
