"""What a service should be, against what its nodes report: the orders for its two workers, and its condition. Pure.

The cloud worker comes first; the edge worker is ordered once the big model serves, for it is told where. From then on
it stays, also while the cloud is away: it goes on by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.inference.prediction import ModelCard
from app.joint_inference.model.content import BigModel, OrderContent, resource_for_node
from app.joint_inference.model.resource import PLURAL, Role, Service
from app.joint_inference.model.state import ObservedWorker, condition_of
from app.joint_inference.model.status import Condition, ConditionType, Reason
from app.nodes.model import Node, Order, WorkKey


@dataclass(frozen=True)
class ObservedState:
    """What was found for a service. None: there is no such model, no such node that its user may use, no such order.

    problem: what is wrong with it whatever the nodes say. edge_order: what the edge node was told before. withheld: see
    Content.
    """

    now: datetime
    edge_model: ModelCard | None
    cloud_model: ModelCard | None
    edge_node: Node | None
    cloud_node: Node | None
    edge_order: Order | None = None
    withheld: Mapping[str, Sequence[str]] = field(default_factory=dict)
    problem: Condition | None = None
    warning: Condition | None = None


@dataclass(frozen=True)
class ServicePlan:
    """orders: what each worker is to be; a role that is missing is left as it is, unless it is of an older generation.

    active, failed: the requirement's counts of workers. ended: workers whose node there is not, or no longer for the
    service's user.
    """

    condition: Condition
    orders: dict[Role, OrderContent]
    active: int
    failed: int
    ended: frozenset[Role] = frozenset()


def key_of(service: Service, role: Role) -> WorkKey:
    return WorkKey(PLURAL, service.uid, role.value)


def plan(service: Service, world: ObservedState) -> ServicePlan:
    seen = {role: _observed(service, role, world) for role in Role}
    active = sum(worker.is_active for worker in seen.values())
    failed = sum(worker.counts_as_failed for worker in seen.values())
    problem = world.problem or _missing(service, world)
    if problem is not None:
        nodes = {Role.EDGE: world.edge_node, Role.CLOUD: world.cloud_node}
        return ServicePlan(problem, {}, active, failed, frozenset(role for role in Role if nodes[role] is None))
    return ServicePlan(condition_of(service, seen), _orders(service, world, seen[Role.CLOUD]), active, failed)


def _observed(service: Service, role: Role, world: ObservedState) -> ObservedWorker:
    wanted = service.specification.worker(role)
    node = world.edge_node if role is Role.EDGE else world.cloud_node
    report = node.worker(key_of(service, role)) if node else None
    if report is not None and report.generation != service.generation:
        report = None  # it is about what was wanted before
    model = world.edge_model if role is Role.EDGE else world.cloud_model
    return ObservedWorker(role, wanted.name, wanted.node, node is not None and node.is_online(world.now), report, model)


def _missing(service: Service, world: ObservedState) -> Condition | None:
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
    return Condition(ConditionType.FAILED, missing[0][0], "\n".join(said for _, said in missing)) if missing else None


def _orders(service: Service, world: ObservedState, cloud: ObservedWorker) -> dict[Role, OrderContent]:
    assert world.cloud_model is not None
    assert world.edge_model is not None
    resource = resource_for_node(service)
    orders = {Role.CLOUD: OrderContent(Role.CLOUD, resource, world.cloud_model, secret=service.secret)}
    url = _big_model(service, world, cloud)
    if url:
        big = BigModel(url, service.secret)
        orders[Role.EDGE] = OrderContent(Role.EDGE, resource, world.edge_model, big_model=big, withheld=world.withheld)
    return orders


def _big_model(service: Service, world: ObservedState, cloud: ObservedWorker) -> str:
    """Where the cloud worker serves; while it is away, where it did when this generation's edge worker was told."""
    if cloud.is_serving and cloud.report is not None and cloud.report.address:
        return f"http://{cloud.report.address}"
    if world.edge_order is None or world.edge_order.generation != service.generation:
        return ""
    big = world.edge_order.content.get("bigModel") or {}
    return str(big.get("url", ""))
