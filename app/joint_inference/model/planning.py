"""What a service should be, against what its nodes report: the orders for its two workers, and its condition. Pure.

The cloud worker comes first; the edge worker is ordered once the big model serves, for it is told where. From then on
it stays, also while the cloud is away: it goes on by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.joint_inference.model.content import BigModel, Content, resource_for_node
from app.joint_inference.model.resource import PLURAL, Role, Service
from app.joint_inference.model.status import Condition, ConditionType, Reason
from app.joint_inference.model.stream import StreamEnd, stream_end
from app.joint_inference.model.tally import Breaker
from app.nodes.model import Node, Order, WorkerReport, WorkerState, WorkKey
from app.vision.model import ModelCard

PENDING, RUNNING, FAILED = ConditionType.PENDING, ConditionType.RUNNING, ConditionType.FAILED
LAST_LINES = 20


@dataclass(frozen=True)
class World:
    """What was found for a service. None: there is no such model, no such node, no such order.

    problem: what is wrong with it whatever the nodes say. edge_order: what the edge node was told before.
    """

    now: datetime
    edge_model: ModelCard | None
    cloud_model: ModelCard | None
    edge_node: Node | None
    cloud_node: Node | None
    edge_order: Order | None = None
    problem: Condition | None = None
    warning: Condition | None = None


@dataclass(frozen=True)
class Plan:
    """orders: what each worker is to be; a role that is missing is left as it is, unless it is of an older generation.

    active, failed: the requirement's counts of workers.
    """

    condition: Condition
    orders: dict[Role, Content]
    active: int
    failed: int


def key_of(service: Service, role: Role) -> WorkKey:
    return WorkKey(PLURAL, service.uid, role.value)


def plan(service: Service, world: World) -> Plan:
    seen = {role: _seen(service, role, world) for role in Role}
    active = sum(worker.is_active for worker in seen.values())
    failed = sum(worker.has_failed or worker.is_blind for worker in seen.values())
    problem = world.problem or _missing(service, world)
    if problem is not None:
        return Plan(problem, {}, active, failed)
    return Plan(_condition(service, seen), _orders(service, world, seen[Role.CLOUD]), active, failed)


@dataclass(frozen=True)
class _Seen:
    """A worker of this generation as its node last reported it, and whether that node is still heard."""

    role: Role
    name: str
    node: str
    is_online: bool
    report: WorkerReport | None

    @property
    def is_serving(self) -> bool:
        return self.is_online and self.was_serving

    @property
    def was_serving(self) -> bool:
        return self.report is not None and self.report.state is WorkerState.RUNNING

    @property
    def is_active(self) -> bool:
        return self.is_serving and not self.is_blind

    @property
    def stream_end(self) -> StreamEnd | None:
        return stream_end(self.report.detail) if self.report is not None and self.was_serving else None

    @property
    def is_blind(self) -> bool:
        """It runs, and its source gives nothing."""
        return self.stream_end is not None and self.stream_end.is_failure

    @property
    def has_failed(self) -> bool:
        return self.report is not None and self.report.state is WorkerState.FAILED

    @property
    def is_restarting(self) -> bool:
        return self.report is not None and self.report.state is WorkerState.BACKOFF


def _seen(service: Service, role: Role, world: World) -> _Seen:
    wanted = service.specification.worker(role)
    node = world.edge_node if role is Role.EDGE else world.cloud_node
    report = node.worker(key_of(service, role)) if node else None
    if report is not None and report.generation != service.generation:
        report = None  # it is about what was wanted before
    return _Seen(role, wanted.name, wanted.node, node is not None and node.is_online(world.now), report)


def _missing(service: Service, world: World) -> Condition | None:
    """All of it in one condition, a line each: who mends it need not find out one by one."""
    cloud, edge = service.specification.cloud, service.specification.edge
    no_model = (
        "There is no model {0.model!r} for the {0.role} worker. Add one of this name under Models, "
        "or name a finished conversion."
    )
    no_node = "There is no node {0.node!r} for the {0.role} worker. Add it under Nodes, or name another."
    missing = [
        (reason, said.format(worker))
        for reason, said, worker, what in (
            (Reason.MODEL_NOT_FOUND, no_model, cloud, world.cloud_model),
            (Reason.MODEL_NOT_FOUND, no_model, edge, world.edge_model),
            (Reason.NODE_NOT_FOUND, no_node, cloud, world.cloud_node),
            (Reason.NODE_NOT_FOUND, no_node, edge, world.edge_node),
        )
        if what is None
    ]
    return Condition(FAILED, missing[0][0], "\n".join(said for _, said in missing)) if missing else None


def _orders(service: Service, world: World, cloud: _Seen) -> dict[Role, Content]:
    assert world.cloud_model is not None
    assert world.edge_model is not None
    resource = resource_for_node(service)
    orders = {Role.CLOUD: Content(Role.CLOUD, resource, world.cloud_model, secret=service.secret)}
    url = _big_model(service, world, cloud)
    if url:
        big = BigModel(url, service.secret)
        orders[Role.EDGE] = Content(Role.EDGE, resource, world.edge_model, big_model=big)
    return orders


def _big_model(service: Service, world: World, cloud: _Seen) -> str:
    """Where the cloud worker serves; while it is away, where it did when this generation's edge worker was told."""
    if cloud.is_serving and cloud.report is not None and cloud.report.address:
        return f"http://{cloud.report.address}"
    if world.edge_order is None or world.edge_order.generation != service.generation:
        return ""
    big = world.edge_order.content.get("bigModel") or {}
    return str(big.get("url", ""))


def _condition(service: Service, seen: dict[Role, _Seen]) -> Condition:
    edge, cloud = seen[Role.EDGE], seen[Role.CLOUD]
    if edge.was_serving:
        return _serving(service, edge, cloud)
    for worker in (cloud, edge):
        if worker.has_failed:
            return Condition(FAILED, Reason.WORKER_FAILED, _why_failed(worker))
        if not worker.is_online:
            return Condition(
                PENDING, Reason.NODE_OFFLINE,
                f"The node {worker.node!r} of the {worker.role} worker is not connected. It is told when it is back.",
            )  # fmt: skip
        if worker.is_restarting:
            return Condition(PENDING, Reason.RESTARTING, _why_failed(worker))
        if not worker.is_serving:
            starting = Reason.CLOUD_STARTING if worker.role is Role.CLOUD else Reason.EDGE_STARTING
            return Condition(PENDING, starting, f"The {worker.role} worker {worker.name!r} starts on {worker.node!r}.")
    raise AssertionError("the edge serves")


def _serving(service: Service, edge: _Seen, cloud: _Seen) -> Condition:
    """Running; degraded while some of it is away. The edge answers in any case, as far as is known."""
    end = edge.stream_end
    if end is not None and edge.is_online:
        return _without_frames(edge, end)
    why = ""
    if not edge.is_online:
        why = f"The node {edge.node!r} is not connected: its worker goes on, but nothing is heard of it."
    elif not cloud.is_online:
        why = f"The node {cloud.node!r} of the big model is not connected. {KEEPS}"
    elif cloud.has_failed or cloud.is_restarting:
        why = f"{_why_failed(cloud)}\n{KEEPS}"
    elif not cloud.is_serving:
        why = f"The cloud worker {cloud.name!r} starts. {KEEPS}"
    elif service.reported.get("breaker", Breaker.CLOSED) != Breaker.CLOSED:
        last = str(service.reported.get("lastError", "")).rstrip(".")
        why = f"The big model does not answer the edge worker{': ' + last if last else ''}. {KEEPS}"
    if why:
        return Condition(RUNNING, Reason.DEGRADED, why)
    return Condition(RUNNING, Reason.SERVING, f"{edge.name!r} asks {cloud.name!r} for the hard samples.")


def _without_frames(edge: _Seen, end: StreamEnd) -> Condition:
    answers = f"{edge.name!r} on {edge.node!r} still answers what it is sent."
    if end.is_failure:
        return Condition(FAILED, end.reason, f"{end.message}\nIt is tried again every few seconds. {answers}")
    return Condition(RUNNING, end.reason, f"{end.message} {answers}")


KEEPS = "Hard samples get the edge's own answer."


def _why_failed(worker: _Seen) -> str:
    report = worker.report
    assert report is not None
    what = f"The {worker.role} worker {worker.name!r} on {worker.node!r}"
    if report.exit_code is None:
        said = f"{what}: {report.message or report.reason}"
    else:
        said = f"{what} ended with exit code {report.exit_code}" + (f": {report.message}" if report.message else "")
    lines = "\n".join(report.log[-LAST_LINES:])
    return f"{said}\n{lines}" if lines else said
