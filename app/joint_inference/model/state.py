"""The current condition of a service, from the reports of its two workers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.inference.model_card import ModelCard, version_on
from app.joint_inference.model.resource import Role, Service, Worker
from app.joint_inference.model.sources import source_broadcasts
from app.joint_inference.model.status import Condition, ConditionType, ProblemKind, Reason, combine
from app.joint_inference.model.stream import StreamEnd, stream_end
from app.joint_inference.model.tally import Breaker
from app.kit.text.json_values import JsonObject
from app.nodes.model import WorkerReport, WorkerState

PENDING, RUNNING, FAILED = ConditionType.PENDING, ConditionType.RUNNING, ConditionType.FAILED
LAST_LINES = 20
OTHERS_GO_ON = "It is tried again every few seconds. The other sources go on."
KEEPS = "Hard samples get the edge's own answer."


@dataclass(frozen=True)
class ObservedWorker:
    """A worker as its node last reported it."""

    role: Role
    name: str
    node: str
    """The name of its node."""
    is_online: bool
    """Whether the node is connected."""
    report: WorkerReport | None
    """For this generation of the service; None if there is none yet."""
    model: ModelCard | None
    """The model it should run."""
    former: WorkerReport | None = None
    """For the former generation, whose process goes on while its node cannot store the newest order."""
    order_problem: str = ""
    """Why its node could not store the newest order; empty if it could."""
    report_problem: str = ""
    """Why its node cannot store what the worker reports; empty if it can."""
    delivery_problem: str = ""
    """Why the web server does not take what its node reports; empty if it does."""

    @property
    def is_serving(self) -> bool:
        return self.is_online and self.report is not None and self.report.state is WorkerState.RUNNING

    @property
    def process(self) -> WorkerReport | None:
        """The report of the process that ran when its node was last heard, perhaps as it was ordered before."""
        if self.report is not None and (self.report.state is WorkerState.RUNNING or self.is_stalled):
            return self.report
        return self.former

    @property
    def is_active(self) -> bool:
        return self.is_online and self.process is not None and not self.is_blind

    @property
    def counts_as_failed(self) -> bool:
        return self.has_failed or self.is_blind

    @property
    def stream_end(self) -> StreamEnd | None:
        return stream_end(self.process.detail) if self.process is not None else None

    @property
    def broadcast_trouble(self) -> str:
        """Which of its broadcasts are not sent, and why, a line each; empty: none."""
        broadcasts = source_broadcasts(self.process.detail) if self.process is not None else ()
        return "\n".join(
            f"The source {one.source!r} is not broadcast: {one.problem.rstrip('.')}."
            for one in broadcasts
            if one.problem and not one.is_sending
        )

    @property
    def is_blind(self) -> bool:
        """It runs, but none of its sources has frames."""
        return self.stream_end is not None and self.stream_end.is_failure and not self.stream_end.is_partial

    @property
    def has_failed(self) -> bool:
        """It has failed, and no process goes on."""
        return self.report is not None and self.report.state is WorkerState.FAILED and not self.is_stalled

    @property
    def is_stalled(self) -> bool:
        """It cannot be changed to what is ordered, and runs as before."""
        report = self.report
        return report is not None and report.state is WorkerState.FAILED and report.former_generation > 0

    @property
    def is_behind(self) -> bool:
        """It is up to date except for a newer version of its model, which its node cannot fetch."""
        return self.is_stalled and self.report is not None and self.report.former_generation == self.report.generation

    @property
    def is_restarting(self) -> bool:
        return self.report is not None and self.report.state is WorkerState.BACKOFF


def running_model(report: WorkerReport | None) -> JsonObject | None:
    """Returns what the worker reports as its model: name, version, sha256; None if it does not report it."""
    detail = report.detail if report else {}
    if not detail.get("model") or not detail.get("sha256"):
        return None
    name, version = version_on(str(detail["model"]))
    return {"model": name, "version": version, "sha256": str(detail["sha256"])}


def condition_of(service: Service, workers: dict[Role, ObservedWorker]) -> Condition:
    edge, cloud = workers[Role.EDGE], workers[Role.CLOUD]
    if edge.process is not None:
        conditions = [_make_serving(service, edge, cloud)]
    else:
        conditions = [condition for worker in (cloud, edge) if (condition := _explain_not_serving(worker)) is not None]
    stalls = (_explain_stall(service, worker) for worker in (cloud, edge) if worker.is_online)
    return combine([*conditions, *(stall for stall in stalls if stall is not None)])


def _explain_not_serving(worker: ObservedWorker) -> Condition | None:
    """Returns why a worker does not serve; None if it does."""
    if worker.has_failed:
        return Condition(FAILED, Reason.WORKER_FAILED, _explain_failure(worker))
    if not worker.is_online:
        message = f"The node {worker.node!r} of the {worker.role} worker is not connected. It is told when it is back."
        return Condition(PENDING, Reason.NODE_OFFLINE, message)
    if worker.is_restarting:
        return Condition(PENDING, Reason.RESTARTING, _explain_failure(worker))
    if worker.process is not None:
        return None
    starting = Reason.CLOUD_STARTING if worker.role is Role.CLOUD else Reason.EDGE_STARTING
    return Condition(PENDING, starting, f"The {worker.role} worker {worker.name!r} starts on {worker.node!r}.")


def _make_serving(service: Service, edge: ObservedWorker, cloud: ObservedWorker) -> Condition:
    """The edge worker ran when it was last heard. Whether the cloud answers is for its tally to say: that a node is not
    connected to the web says nothing of the way between the two workers."""
    if not edge.is_online:
        message = f"The node {edge.node!r} of the edge worker is not connected: whether its worker runs is not known."
        return Condition(PENDING, Reason.NODE_OFFLINE, message)
    end = edge.stream_end
    is_partial = end is not None and end.is_partial
    whole = _make_asking(service, edge, cloud) if end is None or is_partial else _explain_no_frames(edge, end)
    troubles = (
        (ProblemKind.SOURCE, f"{end.message}\n{OTHERS_GO_ON}" if end is not None and is_partial else ""),
        (ProblemKind.REPORTS, _explain_not_reported(edge)),
        (ProblemKind.BROADCAST, edge.broadcast_trouble),
    )
    return combine([whole, *(Condition.degraded(problem, trouble) for problem, trouble in troubles if trouble)])


def with_trouble(condition: Condition, problem: ProblemKind, trouble: str) -> Condition:
    """Returns the condition of a service in addition to what else is wrong with it.

    Args:
        problem: what does not work.
        trouble: for its user; empty: there is none.
    """
    return combine([condition, Condition.degraded(problem, trouble)]) if trouble else condition


def _make_asking(service: Service, edge: ObservedWorker, cloud: ObservedWorker) -> Condition:
    """Returns the condition while frames arrive or are sent: how well the big model is reached."""
    if cloud.is_online and (cloud.has_failed or cloud.is_restarting):
        return Condition.degraded(ProblemKind.CLOUD, f"{_explain_failure(cloud)}\n{KEEPS}")
    away = "" if cloud.is_online else f"The node {cloud.node!r} of the big model is not connected."
    if service.reported.get("breaker", Breaker.CLOSED) != Breaker.CLOSED:
        last = str(service.reported.get("lastError", "")).rstrip(".")
        why = f"The big model does not answer the edge worker{': ' + last if last else ''}. {away}".strip()
        return Condition.degraded(ProblemKind.CLOUD, f"{why} {KEEPS}")
    if away:
        return Condition(RUNNING, Reason.NODE_OFFLINE, f"{away} The edge worker may still reach it.")
    if cloud.process is None:
        return Condition(RUNNING, Reason.CLOUD_STARTING, f"The cloud worker {cloud.name!r} starts on {cloud.node!r}.")
    return Condition(RUNNING, Reason.SERVING, f"{edge.name!r} asks {cloud.name!r} for the hard samples.")


def _explain_no_frames(edge: ObservedWorker, end: StreamEnd) -> Condition:
    answers = f"{edge.name!r} on {edge.node!r} still answers what it is sent."
    if end.is_failure:
        return Condition(FAILED, end.reason, f"{end.message}\nIt is tried again every few seconds. {answers}")
    return Condition(RUNNING, end.reason, f"{end.message} {answers}")


def _explain_stall(service: Service, worker: ObservedWorker) -> Condition | None:
    """Returns why a worker cannot be changed to what is ordered; None if it can.

    Both versions are in the first line, since the message of a service on many nodes shows no other; with their
    generations, unless these are the same."""
    report = worker.report
    if report is None and worker.order_problem:
        return Condition(PENDING, Reason.ROLLOUT_STALLED, _explain_not_stored(worker))
    if report is None or not worker.is_stalled:
        return None
    change = _format_version(worker.model.name, worker.model.sha256) if worker.model else "another model"
    what = _format_version(report.detail.get("model"), report.detail.get("sha256")) or "what ran before"
    if not worker.is_behind:
        change = f"generation {service.generation}, {change}"
        what = f"generation {report.former_generation}, {what}"
    message = (
        f"The {worker.role} worker {worker.name!r} on {worker.node!r} cannot change to {change}, "
        f"and goes on with {what}: {report.message or report.reason}\n"
        "The change is tried again and again."
    )
    if worker.is_behind:
        return Condition.degraded(ProblemKind.MODEL, message)
    return Condition(PENDING, Reason.ROLLOUT_STALLED, message)


def change_of_model(worker: Worker, before: Mapping[str, Any], card: ModelCard) -> str:
    """Returns the event for a worker that is ordered to run another model; empty if it is the same.

    Args:
        before: the card of the previous order, JSON.
    """
    if (before.get("name"), before.get("sha256")) == (card.name, card.sha256):
        return ""
    return (
        f"The {worker.role} worker {worker.name!r} on {worker.node!r} is told to change from "
        f"{_format_version(before.get('name'), before.get('sha256'))} to {_format_version(card.name, card.sha256)}."
    )


def _explain_not_stored(worker: ObservedWorker) -> str:
    return (
        f"The node {worker.node!r} cannot store what the {worker.role} worker {worker.name!r} is to run: "
        f"{worker.order_problem}.\n"
        "What ran there continues. The node is notified again and again."
    )


def _explain_not_reported(worker: ObservedWorker) -> str:
    """Returns why results are missing here; empty: none are."""
    if worker.report_problem:
        return (
            f"The node {worker.node!r} cannot store what its workers report: {worker.report_problem}.\n"
            "They go on, and keep their newest results in memory until it can."
        )
    if worker.delivery_problem:
        return (
            f"The web server does not take what the node {worker.node!r} reports: {worker.delivery_problem}.\n"
            "It waits on the disk of the node."
        )
    return ""


def _format_version(name: Any, sha256: Any) -> str:
    base, version = version_on(str(name))
    return f"version {version} of {base!r} (sha256 {str(sha256)[:12]}…)" if name and sha256 else ""


def _explain_failure(worker: ObservedWorker) -> str:
    report = worker.report
    assert report is not None
    what = f"The {worker.role} worker {worker.name!r} on {worker.node!r}"
    if report.exit_code is None:
        message = f"{what}: {report.message or report.reason}"
    else:
        message = f"{what} ended with exit code {report.exit_code}" + (f": {report.message}" if report.message else "")
    lines = "\n".join(report.log[-LAST_LINES:])
    return f"{message}\n{lines}" if lines else message
